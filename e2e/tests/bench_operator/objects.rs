//! Many objects in namespaces of this program.

use std::{cell::Cell, fmt::Debug, time::Duration};

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, future, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shortener_e2e::await_within;

use crate::progress::step;

/// The time for one request, with its repetitions: a busy API server refuses some.
pub(crate) const REQUEST: Duration = Duration::from_secs(60);

/// The label of every namespace of this program; its value says what is in it.
const LABEL: &str = "shortener.dev/bench";
/// The number of namespaces that objects are spread over.
const NAMESPACES: usize = 20;
/// The number of requests at the same time. More would only wait for each other in an API server on two cores.
const CONCURRENT: usize = 8;
const DELETED: Duration = Duration::from_secs(20 * 60);

/// Returns the namespaces for a number of objects.
pub(crate) fn namespaces(group: &str, objects: usize) -> impl Iterator<Item = String> {
    (0..objects.min(NAMESPACES)).map(move |number| namespace(group, number))
}

/// Returns the namespace of the object of this number.
pub(crate) fn namespace(group: &str, number: usize) -> String {
    format!("bench-{group}-{:02}", number % NAMESPACES)
}

pub(crate) async fn create_namespace(client: &Client, group: &str, name: &str) -> Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {LABEL: group}},
    });
    apply(&Api::<Namespace>::all(client.clone()), name, &namespace).await
}

/// Creates an object, or changes it.
pub(crate) async fn apply<K>(api: &Api<K>, name: &str, object: &Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    await_within(REQUEST, &format!("{name} is applied"), async || {
        let ours = PatchParams::apply("bench").force();
        api.patch(name, &ours, &Patch::Apply(object)).await?;
        Ok(())
    })
    .await?;
    Ok(())
}

/// Does something for every number below `count`, some of them at a time, and counts what is done.
pub(crate) async fn each<F>(
    count: usize,
    done: &Cell<usize>,
    act: impl Fn(usize) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    stream::iter(0..count)
        .map(act)
        .buffer_unordered(CONCURRENT)
        .try_for_each(|()| {
            done.set(done.get() + 1);
            future::ready(Ok(()))
        })
        .await
}

/// Returns the number of objects of a kind in the cluster. It reads one of them: the API server counts the rest.
pub(crate) async fn count<K>(client: &Client) -> Result<usize>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let one = ListParams::default().limit(1);
    let list = Api::<K>::all(client.clone()).list_metadata(&one).await?;
    let rest = list.metadata.remaining_item_count.unwrap_or_default();
    Ok(list.items.len() + usize::try_from(rest)?)
}

/// Deletes the namespaces of a group, or of all, with everything in them, and returns the time until they are gone.
pub(crate) async fn delete(client: &Client, group: Option<&str>) -> Result<Duration> {
    let selector = group.map_or_else(|| LABEL.to_owned(), |group| format!("{LABEL}={group}"));
    let what = format!("Delete the namespaces with {selector}");
    let left = Cell::new(0_usize);
    let shown = || format!("{} namespaces are left", left.get());
    let ((), time) = step(&what, DELETED, shown, until_gone(client, &selector, &left)).await?;
    Ok(time)
}

async fn until_gone(client: &Client, selector: &str, left: &Cell<usize>) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let selected = ListParams::default().labels(selector);
    for namespace in namespaces.list(&selected).await? {
        let name = namespace.name_any();
        namespaces
            .delete(&name, &DeleteParams::background())
            .await?;
    }
    await_within(DELETED, "the namespaces are gone", async || {
        left.set(namespaces.list(&selected).await?.items.len());
        ensure!(left.get() == 0, "{} namespaces are left", left.get());
        Ok(())
    })
    .await?;
    Ok(())
}
