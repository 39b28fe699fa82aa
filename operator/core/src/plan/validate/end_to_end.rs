//! The passage through the gateway that the operator tries.

use std::time::Duration;

use crate::{
    api::GatewaySpec,
    model::{
        facts::Referenced,
        stack::{EndToEnd, ProbeKey},
    },
};

/// Resolves the settings of the passage, if the spec has any.
pub(super) fn end_to_end(gateway: &GatewaySpec, key: Option<Referenced>) -> Option<EndToEnd> {
    let settings = gateway.end_to_end.as_ref()?;
    let seconds = u64::try_from(settings.interval_seconds).unwrap_or_default();
    let url = settings.probe_url.as_deref();
    Some(EndToEnd {
        interval: Duration::from_secs(seconds.max(1)),
        probe_url: url.map(|url| url.trim_end_matches('/').to_owned()),
        key: key.map(|Referenced { reference, value }| ProbeKey {
            secret: reference.name,
            entry: reference.key,
            // Like the app, which reads keys line by line.
            value: value.map(|value| String::from_utf8_lossy(value.0.trim_ascii()).into_owned()),
        }),
    })
}
