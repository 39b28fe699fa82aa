//! Watches of optional kinds, which start once the API server serves the kind.

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
use shortener_operator_core::model::kinds::Presence;

use crate::kubernetes::refusal::is_absent;

/// Interval between checks for a kind that the cluster lacks.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Watches a kind. The watch of an optional kind starts once the cluster has it.
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

/// Waits until the API server serves a kind. API discovery lists no objects and needs no permission of its own.
async fn served<K: Resource<DynamicType = ()>>(client: Client) {
    let (version, plural) = (K::api_version(&()), K::plural(&()));
    loop {
        match client.list_api_group_resources(&version).await {
            Ok(found) if found.resources.iter().any(|kind| kind.name == plural) => return,
            Ok(_) => {}
            // The usual answer is that there is no such API group.
            Err(kube::Error::Api(status)) if is_absent(&status) => {}
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "API discovery failed; retrying in 60 s");
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
