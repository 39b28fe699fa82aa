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
use tokio_util::sync::CancellationToken;

use crate::kubernetes::refusal::is_absent;

/// Interval between checks for a kind that the cluster lacks.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Interval between attempts while API discovery fails.
const TRY_AGAIN: Duration = Duration::from_secs(2);

/// Watches a kind. The watch of an optional kind starts once the cluster has it. `absent` is cancelled when the cluster
/// turns out to lack it.
pub(in crate::kubernetes) fn events<K>(
    client: &Client,
    api: Api<K>,
    config: watcher::Config,
    presence: Presence,
    absent: CancellationToken,
) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    match presence {
        Presence::Always => watcher(api, config).boxed(),
        Presence::Optional => stream::once(served::<K>(client.clone(), absent))
            .flat_map(move |()| watcher(api.clone(), config.clone()))
            .boxed(),
    }
}

/// Waits until the API server serves a kind. API discovery lists no objects and needs no permission of its own.
async fn served<K: Resource<DynamicType = ()>>(client: Client, absent: CancellationToken) {
    let (version, plural) = (K::api_version(&()), K::plural(&()));
    loop {
        let lacks_it = match client.list_api_group_resources(&version).await {
            Ok(found) if found.resources.iter().any(|kind| kind.name == plural) => return,
            Ok(_) => true,
            // The usual answer is that there is no such API group.
            Err(kube::Error::Api(status)) if is_absent(&status) => true,
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "API discovery failed; retrying in 2 s");
                false
            }
        };
        if lacks_it {
            absent.cancel();
        }
        tokio::time::sleep(if lacks_it { LOOK_AGAIN } else { TRY_AGAIN }).await;
    }
}
