//! The verdict on a store as the stack's own programs see it, in sentences with the remedy.

use crate::{
    api::Protected,
    model::{
        external::TlsFileKind,
        metadata::{Component, component_name},
        stack::{Store, StoreTls},
        store_cluster::Runner,
        store_state::{StoreFault, StoreFaults},
    },
    plan::{
        stores::{self, Definition, external},
        verdict::{Verdict, View, patience::UNREACHABLE, pods},
    },
};

/// The settings of an external store that a sentence may name.
struct Settings<'a> {
    /// Secret with the address and the credentials.
    secret: &'a str,
    tls: Option<&'a StoreTls>,
}

/// Returns the verdict on an external store: true, unless the stack's programs say why they cannot use it. `without`
/// describes the effect on requests while it is unavailable.
pub(super) fn external(
    view: View<'_>,
    component: Component,
    (secret, tls): (&str, Option<&StoreTls>),
    without: &str,
) -> Verdict {
    let field = format!("{}.external", stores::field(component));
    let told = told(view, component, &field, &Settings { secret, tls });
    told.unwrap_or_else(|| {
        Verdict::yes(
            "External",
            format!("external server, configured by Secret {secret}; {without}"),
        )
    })
}

/// Returns the verdict on a store that another operator runs, if the stack's programs say why they cannot use it. While
/// another server takes over, none of them gets an answer.
pub(in crate::plan::stores) fn of_cluster(
    view: View<'_>,
    component: Component,
    runner: &Runner,
    is_ready: bool,
) -> Option<Verdict> {
    let Store::External { secret, tls, .. } = (stores::of(component)?.store)(view.stack)? else {
        return None;
    };
    let tls = tls.as_ref();
    let told = told(view, component, runner.field, &Settings { secret, tls })?;
    (is_ready || told.reason != StoreFault::Unreachable.reason()).then_some(told)
}

/// Returns what the stack's programs say against a store that others run, under its field.
fn told(
    view: View<'_>,
    component: Component,
    field: &str,
    settings: &Settings<'_>,
) -> Option<Verdict> {
    let (fault, store) = fault(view, component).zip(stores::of(component))?;
    if view.stack.stopped {
        return None;
    }
    let message = format!("{field}: {}", sentence(fault, store, settings));
    Some(Verdict::fault(fault.reason(), message))
}

/// Returns the verdict on a managed store whose pod is ready, if the stack's programs say why they cannot use it. Without
/// an answer of the server, they may not have connected again after a restart of it.
pub(super) fn managed(view: View<'_>, component: Component) -> Option<Verdict> {
    let store = stores::of(component)?;
    let fault = fault(view, component)?;
    let secret = component_name(&view.stack.identity.name, component);
    let message = format!(
        "{}.managed: {}",
        store.field,
        managed_sentence(fault, store, &secret)
    );
    Some(match fault {
        StoreFault::Unreachable => {
            let since = pods::ready_since(view.live, component);
            UNREACHABLE.verdict(fault.reason(), &message, since, view.live.at)
        }
        StoreFault::RecordsReserved => Verdict {
            fault: true,
            ..Verdict::yes(fault.reason(), message)
        },
        StoreFault::LinksReserved => {
            let auth = view.stack.app.auth.as_ref();
            let with_keys = auth.is_some_and(|auth| auth.protect.contains(&Protected::Shorten));
            Verdict::fault(fault.reason(), message).serving(with_keys)
        }
        _ => Verdict::fault(fault.reason(), message),
    })
}

/// Returns the fault of a store. For the database, a failed migration takes precedence: it has the current settings,
/// and running pods may have older ones. One that ended before the server answered says nothing any more.
fn fault(view: View<'_>, component: Component) -> Option<StoreFault> {
    let faults: &StoreFaults = &view.live.store_faults;
    let migration = match component {
        Component::Postgres => external::of_migration(&view.live.pods),
        _ => None,
    };
    let database = view.stack.database.as_ref();
    let is_managed = database.is_some_and(|database| database.managed().is_some());
    let migration = migration.filter(|fault| !is_managed || *fault != StoreFault::Unreachable);
    migration.or_else(|| faults.get(&component).copied())
}

fn sentence(fault: StoreFault, store: &Definition, settings: &Settings<'_>) -> String {
    let Definition { field, noun, .. } = *store;
    let secret = settings.secret;
    match fault {
        StoreFault::TlsExpired => {
            format!("the certificate of the {noun} has expired or is not valid yet: renew it")
        }
        StoreFault::TlsUntrusted => match file(settings, TlsFileKind::Authorities) {
            Some((secret, key)) => format!(
                "the certificate of the {noun} is not signed by the authority in Secret {secret} (key {key}): add the \
                 authority that signed it"
            ),
            None => format!(
                "the certificate of the {noun} is not signed by a public authority: name the Secret with the authority \
                 that signed it in {field}.external.tls.caSecretRef"
            ),
        },
        StoreFault::TlsWrongName => format!(
            "the certificate of the {noun} is for another name than the address in Secret {secret}: use a name that the \
             certificate has, or renew it with this one"
        ),
        StoreFault::TlsRefused => match file(settings, TlsFileKind::Certificate) {
            Some((certificate, _)) => format!(
                "the TLS handshake with the {noun} failed: check that it speaks TLS at the port in Secret {secret} and \
                 accepts the certificate in Secret {certificate}"
            ),
            None => format!(
                "the TLS handshake with the {noun} failed: check that it speaks TLS at the port in Secret {secret}; if \
                 it demands a certificate of its clients, name one in {field}.external.tls.clientCertificateSecretRef"
            ),
        },
        StoreFault::LoginRefused => login_refused(store, secret),
        StoreFault::Unreachable => format!(
            "the stack's pods get no answer from the {noun} at the address in Secret {secret}, or one in another \
             protocol: check the address, the server, and the network policies between them"
        ),
        StoreFault::NotFound => not_found(store, secret),
        StoreFault::OtherCollection => format!(
            "the collection has another size or distance than {field}.size and {field}.distance: switch the profile \
             {field} off and set them to those of the collection, or delete the collection"
        ),
        StoreFault::RecordsReserved => format!(
            "the {noun} is 70 % full and takes no jobs and documents of clients without keys: raise \
             {field}.managed.storage"
        ),
        StoreFault::LinksReserved => format!(
            "the {noun} is 85 % full and takes no links of clients without keys: raise {field}.managed.storage"
        ),
    }
}

/// Returns the sentence about a server that the operator runs. Its pod, which has the name of the Secret, sets user and
/// password at its start.
fn managed_sentence(fault: StoreFault, store: &Definition, secret: &str) -> String {
    let noun = store.noun;
    match fault {
        StoreFault::LoginRefused => format!(
            "the {noun} refuses the credentials in Secret {secret}, because they were changed in the server, or in the \
             Secret after its start: delete pod {secret}-0"
        ),
        StoreFault::Unreachable
        | StoreFault::TlsExpired
        | StoreFault::TlsUntrusted
        | StoreFault::TlsWrongName
        | StoreFault::TlsRefused => format!(
            "the stack's pods get no answer from the {noun} whose pod {secret}-0 is ready, or one in another protocol"
        ),
        StoreFault::NotFound if store.component == Component::Postgres => {
            format!("the {noun} has lost the stack's database: restore a backup into a new stack")
        }
        StoreFault::NotFound => format!(
            "the {noun} has lost what the stack created in it: delete pod {secret}-0, and the stack creates it again"
        ),
        StoreFault::OtherCollection | StoreFault::RecordsReserved | StoreFault::LinksReserved => {
            sentence(fault, store, &Settings { secret, tls: None })
        }
    }
}

fn login_refused(store: &Definition, secret: &str) -> String {
    let Definition { field, noun, .. } = *store;
    match store.component {
        Component::Qdrant => {
            format!("the {noun} refuses the API key: correct {field}.external.apiKeySecretRef")
        }
        _ => format!(
            "the {noun} refuses the user or the password in Secret {secret}, or a right of this user: correct them"
        ),
    }
}

fn not_found(store: &Definition, secret: &str) -> String {
    let (missing, setting) = match store.component {
        Component::Postgres => ("database", format!("Secret {secret}")),
        Component::Rabbitmq => ("virtual host", format!("Secret {secret}")),
        Component::Cache => ("master", format!("{}.external.sentinelMaster", store.field)),
        _ => ("collection", format!("{}.collection", store.field)),
    };
    format!("the server has no {missing} of the name in {setting}: create it, or correct the name")
}

/// Returns the Secret and the key of a file that the programs need for TLS.
fn file<'a>(settings: &Settings<'a>, kind: TlsFileKind) -> Option<(&'a str, &'a str)> {
    let files = &settings.tls?.files;
    let file = files.iter().find(|file| file.kind == kind)?;
    Some((file.secret.as_str(), file.key.as_str()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        model::{live::Live, metadata::labels, stack::ValidatedStack},
        testing::{live, stack::minimal_stack},
    };

    const STORES: [Component; 4] = [
        Component::Postgres,
        Component::Cache,
        Component::Rabbitmq,
        Component::Qdrant,
    ];

    fn verdict(stack: &ValidatedStack, live: &Live, store: Component) -> Verdict {
        let condition = stores::of(store).unwrap().condition.as_ref().unwrap();
        (condition.verdict)(View { stack, live }).unwrap()
    }

    fn with_fault(component: Component, fault: StoreFault) -> Live {
        Live {
            store_faults: [(component, fault)].into(),
            ..Live::default()
        }
    }

    fn without_tls() -> ValidatedStack {
        minimal_stack()
            .external_database()
            .external_cache()
            .external_queue()
            .external_vector()
    }

    #[test]
    fn every_fault_of_every_store_is_a_sentence_with_the_field_and_a_remedy() {
        for stack in [
            without_tls(),
            minimal_stack().every_external_store_over_tls(),
        ] {
            for component in STORES {
                let healthy = verdict(&stack, &Live::default(), component);
                assert_eq!((healthy.holds, healthy.reason), (true, "External"));
                for fault in StoreFault::ALL {
                    let live = with_fault(component, fault);
                    let found = verdict(&stack, &live, component);
                    assert!(found.fault, "{found:?}");
                    assert_eq!(found.reason, fault.reason());
                    let field = stores::of(component).unwrap().field;
                    let start = format!("{field}.external: the ");
                    let (what, remedy) = found.message.rsplit_once(": ").unwrap();
                    assert!(what.starts_with(&start), "{}", found.message);
                    assert!(!remedy.is_empty(), "{}", found.message);
                    for other in STORES.into_iter().filter(|other| *other != component) {
                        assert_eq!(verdict(&stack, &live, other).reason, "External");
                    }
                }
            }
        }
    }

    #[test]
    fn a_sentence_names_what_to_change() {
        let private = minimal_stack().every_external_store_over_tls();
        let public = without_tls();
        let expected = [
            (
                &private,
                Component::Rabbitmq,
                StoreFault::TlsUntrusted,
                "queue.external: the certificate of the broker is not signed by the authority in Secret links-ca (key \
                 bundle.pem): add the authority that signed it",
            ),
            (
                &public,
                Component::Rabbitmq,
                StoreFault::TlsUntrusted,
                "in queue.external.tls.caSecretRef",
            ),
            (
                &private,
                Component::Cache,
                StoreFault::TlsRefused,
                "accepts the certificate in Secret links-client",
            ),
            (
                &public,
                Component::Cache,
                StoreFault::TlsRefused,
                "in cache.external.tls.clientCertificateSecretRef",
            ),
            (
                &public,
                Component::Postgres,
                StoreFault::LoginRefused,
                "the password in Secret links-database",
            ),
            (
                &public,
                Component::Qdrant,
                StoreFault::LoginRefused,
                "vector.external.apiKeySecretRef",
            ),
            (
                &public,
                Component::Cache,
                StoreFault::NotFound,
                "no master of the name in cache.external.sentinelMaster",
            ),
        ];
        for (stack, component, fault, part) in expected {
            let message = verdict(stack, &with_fault(component, fault), component).message;
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_managed_store_that_its_clients_cannot_use_is_not_ready() {
        let stack = minimal_stack().caching().queue().vector();
        for component in STORES {
            for fault in StoreFault::ALL {
                let with_pods = |ready| Live {
                    store_faults: [(component, fault)].into(),
                    ..live::live(component, live::workload(1, ready))
                };
                let found = verdict(&stack, &with_pods(1), component);
                assert_eq!(found.reason, fault.reason());
                let serves = fault == StoreFault::RecordsReserved;
                assert_eq!((found.holds, found.serves), (serves, serves), "{found:?}");
                assert_eq!(found.fault, fault != StoreFault::Unreachable, "{found:?}");
                let field = stores::of(component).unwrap().field;
                let start = format!("{field}.managed: the ");
                assert!(found.message.starts_with(&start), "{}", found.message);
                assert!(!found.message.contains("external"), "{}", found.message);
                let starting = verdict(&stack, &with_pods(0), component);
                assert_eq!(starting.reason, "PodsStarting");
            }
        }
    }

    #[test]
    fn a_database_that_keeps_its_space_for_keys_serves_where_links_need_one() {
        let live = Live {
            store_faults: [(Component::Postgres, StoreFault::LinksReserved)].into(),
            ..live::live(Component::Postgres, live::workload(1, 1))
        };
        let mut with_keys = minimal_stack().keys();
        let auth = with_keys.app.auth.as_mut().unwrap();
        auth.protect.insert(Protected::Shorten);
        for (stack, serves) in [(minimal_stack(), false), (with_keys, true)] {
            let found = verdict(&stack, &live, Component::Postgres);
            assert_eq!((found.fault, found.serves), (true, serves), "{found:?}");
            let message = "database.managed: the database is 85 % full and takes no links of clients without keys: raise \
                 database.managed.storage";
            assert_eq!(found.message, message);
        }
    }

    #[test]
    fn a_failed_migration_speaks_before_running_pods_do() {
        let statuses = json!([{
            "name": "migrate", "image": "", "imageID": "", "ready": false, "restartCount": 1,
            "state": {"terminated": {"exitCode": 1, "message": "app: why\ndenied\n"}},
        }]);
        let pod = json!({
            "metadata": {"name": "acme-app-a", "labels": labels("acme", Component::App)},
            "status": {"initContainerStatuses": statuses},
        });
        let live = Live {
            pods: vec![Arc::new(serde_json::from_value(pod).unwrap())],
            ..with_fault(Component::Postgres, StoreFault::Unreachable)
        };
        let stack = without_tls();
        let found = verdict(&stack, &live, Component::Postgres);
        assert_eq!(found.reason, "LoginRefused");
        let stopped = verdict(&stack.stopped(), &live, Component::Postgres);
        assert_eq!(stopped.reason, "External");
        let managed = verdict(&minimal_stack(), &live, Component::Postgres);
        assert_eq!(managed.reason, "Pending");
    }
}
