//! Kinds that a cluster may lack: whether it has them, and from when.

use std::{fmt::Debug, time::Duration};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;

use crate::reconcile::refusal::is_absent;

/// How soon a kind that was added to the cluster is noticed.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Whether every cluster has a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is part of Kubernetes.
    Always,
    /// Somebody may have added it, now or later.
    Optional,
}

/// The watch of a kind; of one that the cluster lacks, from when it is there.
pub(super) fn events<K>(
    client: &Client,
    api: Api<K>,
    config: watcher::Config,
    presence: Presence,
) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    match presence {
        Presence::Always => watcher(api, config).boxed(),
        Presence::Optional => stream::once(served::<K>(client.clone()))
            .flat_map(move |()| watcher(api.clone(), config.clone()))
            .boxed(),
    }
}

/// Waits until the API server has a kind. Asking for what there is lists no object and needs no right of its own.
async fn served<K: Resource<DynamicType = ()>>(client: Client) {
    let (version, plural) = (K::api_version(&()), K::plural(&()));
    loop {
        match client.list_api_group_resources(&version).await {
            Ok(found) if found.resources.iter().any(|kind| kind.name == plural) => return,
            Ok(_) => {}
            // An answer that there is no such group is the usual one.
            Err(kube::Error::Api(status)) if is_absent(&status) => {}
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "cannot ask whether the cluster has this kind");
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
