//! Tests of changes that others make to a stack's objects: drift is corrected, and objects outside the stack stay
//! unchanged.

use std::time::Duration;

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{ConfigMap, Secret, Service},
        networking::v1::NetworkPolicy,
    },
};
use kube::{Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    child_kinds,
    model::{
        kinds::Deletion,
        metadata::{COMPONENT_LABEL, INSTANCE_LABEL, MANAGED_BY_LABEL},
    },
};

use crate::testing::{
    api_server::FakeApiServer,
    shared::stored_stack,
    world::{NAMESPACE, World},
};

pub(super) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Serialize
{
}
impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Serialize>
    Kind for K
{
}

/// Runs a check for every object of every kind, of which the worlds must have one. The last argument is the treatment of
/// undesired objects of the kind.
macro_rules! for_every_child {
    ($check:ident, $worlds:expr) => {
        child_kinds!(check_kinds($check, $worlds))
    };
}

macro_rules! check_kinds {
    (($check:ident, $worlds:expr) $(
        $(#[$about:meta])*
        $group:ident: $presence:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty $(as $desired:ty)?, $deletion:ident;)*
        }
    )*) => {{
        $($(
            let mut checked = 0;
            for world in $worlds {
                for name in names::<$kind>(world) {
                    $check::<$kind>(world, &name, Deletion::$deletion).await;
                    checked += 1;
                }
            }
            assert_ne!(checked, 0, "no stack has a {}", <$kind as Resource>::kind(&()));
        )*)*
    }};
}

/// Returns the names of the children of a kind.
fn names<K: Kind>(world: &World) -> Vec<String> {
    let prefix = format!("{}/", K::plural(&()));
    let children = world.children().into_iter();
    children
        .filter_map(|child| Some(child.strip_prefix(&prefix)?.to_owned()))
        .collect()
}

/// Starts stacks that have an object of every kind together: a stack has either Ingresses or an HTTPRoute, and either
/// stores of its own or clusters of other operators.
async fn with_every_kind(policy: &str) -> [World; 3] {
    let with_ingresses = json!({
        "monitoring": {"enabled": true},
        "app": {"autoscaling": {"maxReplicas": 4}},
        "deletionPolicy": policy,
    });
    let with_a_route = json!({
        "gateway": {
            "provider": "GatewayAPI",
            "parentRefs": [{"name": "public", "namespace": "infra"}],
            "hosts": ["go.test"],
            "tls": {"secretName": "go-tls"},
        },
        "deletionPolicy": policy,
    });
    let with_clusters = json!({
        "profiles": ["queue"],
        "database": {"cloudNativePG": {"pooler": {}}},
        "queue": {"rabbitmqCluster": {}},
        "deletionPolicy": policy,
    });
    [
        World::with_optional_kinds(with_ingresses).await,
        World::with_optional_kinds(with_a_route).await,
        World::with_optional_kinds(with_clusters).await,
    ]
}

/// Asserts that this child was the only one written.
fn only_write<K: Kind>(world: &World, name: &str) {
    let writes = world.child_writes();
    let suffix = format!("/{}/{name}", K::plural(&()));
    assert!(
        writes.len() == 1 && writes[0].ends_with(&suffix),
        "{} led to {writes:?}",
        K::kind(&())
    );
}

/// Deletes a child, and checks that the operator creates it again and writes nothing else.
pub(super) async fn recreates<K: Kind>(world: &World, name: &str) {
    let before = world.uid::<K>(name);
    world.server.forget_writes();
    world.server.delete::<K>(NAMESPACE, name);
    world.settle().await;
    let after = world.uid::<K>(name);
    assert!(
        after.is_some() && after != before,
        "{} was not put back",
        K::kind(&())
    );
    only_write::<K>(world, name);
}

/// Edits the component label of a child, and checks that the operator restores it in the same object.
pub(super) async fn restores_label<K: Kind>(world: &World, name: &str) {
    let seen = || {
        let object = world.server.get::<K>(NAMESPACE, name).unwrap();
        (object.uid(), object.labels()[COMPONENT_LABEL].clone())
    };
    let before = seen();
    world.server.edit::<K>(NAMESPACE, name, |object| {
        object["metadata"]["labels"][COMPONENT_LABEL] = "edited".into();
    });
    world.settle().await;
    assert_eq!(seen(), before, "{}", K::kind(&()));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_child_of_every_kind_is_put_back_alone() {
    async fn check<K: Kind>(world: &World, name: &str, deletion: Deletion) {
        if deletion == Deletion::Pruned {
            recreates::<K>(world, name).await;
        }
    }
    let worlds = with_every_kind("Retain").await;
    for_every_child!(check, &worlds);
}

#[tokio::test(start_paused = true)]
async fn an_edited_field_of_every_kind_is_put_back_alone() {
    async fn check<K: Kind>(world: &World, name: &str, _: Deletion) {
        world.server.forget_writes();
        restores_label::<K>(world, name).await;
        only_write::<K>(world, name);
    }
    let worlds = with_every_kind("Retain").await;
    for_every_child!(check, &worlds);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_lost_the_label_it_is_watched_by_gets_it_back() {
    async fn check<K: Kind>(world: &World, name: &str, _: Deletion) {
        let uid = world.uid::<K>(name);
        world.server.edit::<K>(NAMESPACE, name, |object| {
            if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
                labels.remove(MANAGED_BY_LABEL);
            }
        });
        world.settle().await;
        let object = world.server.get::<K>(NAMESPACE, name).unwrap();
        assert_eq!(object.uid(), uid);
        assert!(
            object.labels().contains_key(MANAGED_BY_LABEL),
            "{}",
            K::kind(&())
        );
    }
    for policy in ["Delete", "Retain"] {
        let worlds = with_every_kind(policy).await;
        for_every_child!(check, &worlds);
        for world in &worlds {
            assert_eq!(
                world.condition("acme", "Degraded").status,
                "False",
                "{policy}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_without_its_owner_is_left_alone_unless_it_holds_data() {
    async fn check<K: Kind>(world: &World, name: &str, deletion: Deletion) {
        world.server.edit::<K>(NAMESPACE, name, |object| {
            object["metadata"]["ownerReferences"] = json!([]);
            object["metadata"]["labels"][COMPONENT_LABEL] = "edited".into();
        });
        world.settle().await;
        let object = world.server.get::<K>(NAMESPACE, name).unwrap();
        let is_left = object.labels()[COMPONENT_LABEL] == "edited";
        assert_eq!(is_left, deletion == Deletion::Pruned, "{}", K::kind(&()));
        if is_left {
            assert!(object.owner_references().is_empty(), "{}", K::kind(&()));
            // The remedy: the operator makes a new one.
            world.server.delete::<K>(NAMESPACE, name);
            world.settle().await;
            let object = world.server.get::<K>(NAMESPACE, name).unwrap();
            assert_eq!(object.owner_references().len(), 1, "{}", K::kind(&()));
        }
    }
    let worlds = with_every_kind("Delete").await;
    for_every_child!(check, &worlds);
    for world in &worlds {
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn children_that_outlived_their_stack_belong_to_the_next_one_of_its_name() {
    /// Does the same to a child as `kubectl delete --cascade=orphan`.
    async fn orphan<K: Kind>(world: &World, name: &str, _: Deletion) {
        world.server.edit::<K>(NAMESPACE, name, |object| {
            object["metadata"]["ownerReferences"] = json!([]);
        });
    }
    async fn taken_up<K: Kind>(world: &World, name: &str, deletion: Deletion) {
        let object = world.server.get::<K>(NAMESPACE, name).unwrap();
        let owners = object.owner_references().iter();
        let owners: Vec<_> = owners.map(|owner| owner.uid.clone()).collect();
        let stack = world.stack("acme").uid().unwrap();
        let expected = (deletion == Deletion::Pruned).then_some(stack);
        assert_eq!(owners, Vec::from_iter(expected), "{}/{name}", K::kind(&()));
    }
    let templates = |world: &World| -> Vec<Value> {
        let of_deployments = names::<Deployment>(world).into_iter().map(|name| {
            let deployment = world.server.get::<Deployment>(NAMESPACE, &name);
            serde_json::to_value(deployment.unwrap().spec.unwrap().template)
        });
        let of_stores = names::<StatefulSet>(world).into_iter().map(|name| {
            let store = world.server.get::<StatefulSet>(NAMESPACE, &name);
            serde_json::to_value(store.unwrap().spec.unwrap().template)
        });
        let all: Result<_, _> = of_deployments.chain(of_stores).collect();
        all.unwrap()
    };
    let worlds = with_every_kind("Retain").await;
    let before: Vec<_> = worlds.iter().map(templates).collect();
    let stacks = worlds.each_ref().map(|world| world.stack("acme"));
    // Without a pause, in which the operator would put the owners back.
    for_every_child!(orphan, &worlds);
    for world in &worlds {
        world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    }
    for world in &worlds {
        world.settle().await;
    }
    for (world, mut stack) in worlds.iter().zip(stacks) {
        stack.status = None;
        world.server.create(&stack);
        world.settle().await;
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
    for_every_child!(taken_up, &worlds);
    let after: Vec<_> = worlds.iter().map(templates).collect();
    assert_eq!(after, before, "no pod restarts");
}

#[tokio::test(start_paused = true)]
async fn what_others_add_is_left_alone() {
    async fn check<K: Kind>(world: &World, name: &str, _: Deletion) {
        world.server.edit::<K>(NAMESPACE, name, |object| {
            object["metadata"]["labels"]["their/label"] = "kept".into()
        });
        world.settle().await;
        assert_eq!(
            world.server.get::<K>(NAMESPACE, name).unwrap().labels()["their/label"],
            "kept",
            "{}",
            K::kind(&())
        );
    }
    let worlds = with_every_kind("Retain").await;
    for_every_child!(check, &worlds);
    for world in &worlds {
        assert_eq!(world.child_writes(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_added_where_absence_protects_is_removed() {
    async fn check<K: Kind>(world: &World, name: &str, add: fn(&mut Value)) {
        let spec = || world.server.get::<K>(NAMESPACE, name);
        let spec = || serde_json::to_value(spec()).unwrap()["spec"].clone();
        let before = spec();
        world.server.forget_writes();
        world
            .server
            .edit::<K>(NAMESPACE, name, |object| add(&mut object["spec"]));
        assert_ne!(spec(), before);
        world.settle().await;
        assert_eq!(spec(), before);
        only_write::<K>(world, name);
    }
    let world = World::with_stack(json!({"profiles": ["queue"]})).await;
    check::<NetworkPolicy>(&world, "acme-default-deny", |spec| {
        spec["ingress"] = json!([{}])
    })
    .await;
    check::<NetworkPolicy>(&world, "acme-postgres", |spec| spec["egress"] = json!([{}])).await;
    check::<NetworkPolicy>(&world, "acme-postgres", |spec| {
        spec["podSelector"]["matchLabels"]["no"] = "pod".into();
    })
    .await;
    check::<NetworkPolicy>(&world, "acme-postgres", |spec| {
        let rules = spec["ingress"].as_array_mut().unwrap();
        rules.push(json!({}));
    })
    .await;
    check::<Deployment>(&world, "acme-app", |spec| spec["paused"] = true.into()).await;
    check::<Deployment>(&world, "acme-worker", |spec| {
        spec["minReadySeconds"] = 3600.into();
    })
    .await;
    check::<Deployment>(&world, "acme-app", |spec| {
        let pod = &mut spec["template"]["spec"];
        pod["hostPID"] = true.into();
        pod["hostIPC"] = true.into();
        pod["containers"][0]["securityContext"]["privileged"] = true.into();
    })
    .await;
    check::<Deployment>(&world, "acme-app", |spec| {
        spec["template"]["spec"]["hostNetwork"] = true.into();
    })
    .await;
    check::<StatefulSet>(&world, "acme-postgres", |spec| {
        spec["updateStrategy"]["rollingUpdate"]["partition"] = 1.into();
    })
    .await;
    check::<Service>(&world, "acme-postgres", |spec| {
        spec["externalIPs"] = json!(["192.0.2.1"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_rendered_key_of_a_secret_is_put_back() {
    let world = World::with_stack(json!({"profiles": ["queue"]})).await;
    let data = || {
        world
            .server
            .get::<Secret>(NAMESPACE, "acme-rabbitmq")
            .unwrap()
            .data
    };
    let before = data();
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-rabbitmq", |secret| {
            secret["data"]["definitions.json"] = "e30=".into();
        });
    world.settle().await;
    assert_eq!(data(), before);
    only_write::<Secret>(&world, "acme-rabbitmq");
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_changes_is_left_as_it_is() {
    fn mirror(deployment: &mut Value) {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror:1".into();
    }
    let world = World::with_stack(json!({})).await;
    world.server.mutate::<Deployment>(mirror);
    world.edit_spec("acme", |spec| spec["app"]["replicas"] = 3.into());
    world.settle().await;
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
    restores_label::<Deployment>(&world, "acme-app").await;
    only_write::<Deployment>(&world, "acme-app");
    let world = world.restart().await;
    world.settle().await;
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_changes_a_child_back_is_named_and_answered_ever_more_rarely() {
    let world = World::with_stack(json!({})).await;
    let selector = || {
        let service = world.server.get::<Service>(NAMESPACE, "acme-app").unwrap();
        service.spec.unwrap().selector.unwrap()[COMPONENT_LABEL].clone()
    };
    let mut named = false;
    for _ in 0..600 {
        if selector() != "theirs" {
            world
                .server
                .edit::<Service>(NAMESPACE, "acme-app", |service| {
                    service["spec"]["selector"][COMPONENT_LABEL] = "theirs".into();
                });
        }
        world.pass(Duration::from_secs(1)).await;
        let degraded = world.condition("acme", "Degraded");
        named |= degraded.reason == "Contested"
            && degraded.message.contains("Service/acme-app")
            && degraded.message.contains("spec.selector");
    }
    assert!(named);
    let writes = world.child_writes().len();
    assert!((5..=20).contains(&writes), "{writes} in ten minutes");
    world.pass(Duration::from_secs(660)).await;
    assert_eq!(selector(), "app");
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn an_edit_while_the_operator_is_down_is_put_back_when_it_returns() {
    let mut world = World::with_stack(json!({})).await;
    world = world.restart().await;
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["ports"][0]["port"] = 1.into()
        });
    world.settle().await;
    let service = world.server.get::<Service>(NAMESPACE, "acme-app").unwrap();
    assert_eq!(service.spec.unwrap().ports.unwrap()[0].port, 3000);
    only_write::<Service>(&world, "acme-app");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_childs_name_that_is_not_ours_is_never_touched() {
    let world = World::start(FakeApiServer::default());
    let foreign: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "acme-gateway", "namespace": NAMESPACE, "labels": {INSTANCE_LABEL: "theirs"}},
        "data": {"theirs": "1"},
    }))
    .unwrap();
    let foreign = world.server.create(&foreign);
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    assert_eq!(
        world
            .server
            .get::<ConfigMap>(NAMESPACE, "acme-gateway")
            .unwrap(),
        foreign
    );
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(
        (degraded.status.as_str(), degraded.reason.as_str()),
        ("True", "NameTaken")
    );
    assert!(
        degraded.message.contains("ConfigMap/acme-gateway"),
        "{}",
        degraded.message
    );
    // The other children are written.
    assert!(
        world
            .children()
            .contains(&"deployments/acme-app".to_owned())
    );
    world.server.delete::<ConfigMap>(NAMESPACE, "acme-gateway");
    // An object outside the stack is not watched, so only the next retry after the backoff finds the name free.
    world.pass(Duration::from_secs(360)).await;
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn a_lost_credential_is_never_minted_anew_over_an_existing_volume() {
    let world = World::with_stack(json!({})).await;
    let secret = world
        .server
        .get::<Secret>(NAMESPACE, "acme-postgres")
        .unwrap();
    world.server.delete::<Secret>(NAMESPACE, "acme-postgres");
    world.settle().await;
    assert!(
        world
            .server
            .get::<Secret>(NAMESPACE, "acme-postgres")
            .is_none()
    );
    assert_eq!(
        world.condition("acme", "Degraded").reason,
        "CredentialsMissing"
    );
    world.server.create(&secret);
    world.settle().await;
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    assert_eq!(
        world
            .server
            .get::<Secret>(NAMESPACE, "acme-postgres")
            .unwrap()
            .data,
        secret.data
    );
}

#[tokio::test(start_paused = true)]
async fn an_edited_password_stays_and_restarts_the_pods_that_use_it() {
    let world = World::with_stack(json!({})).await;
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-postgres", |secret| {
            secret["data"]["password"] = "bmV3".into()
        });
    world.settle().await;
    let secret = world
        .server
        .get::<Secret>(NAMESPACE, "acme-postgres")
        .unwrap();
    assert_eq!(secret.data.unwrap()["password"].0, b"new");
    let mut writes = world.child_writes();
    writes.sort();
    let expected = ["deployments/acme-app", "statefulsets/acme-postgres"];
    assert!(
        writes.len() == 2
            && writes
                .iter()
                .zip(expected)
                .all(|(write, name)| write.ends_with(name)),
        "{writes:?}"
    );
}
