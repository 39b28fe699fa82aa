//! The end-to-end probe through the gateway that the operator tries.

use std::time::Duration;

use crate::{
    api::GatewaySpec,
    model::{
        facts::Referenced,
        failure::StepFailure,
        stack::{EndToEnd, ProbeKey},
    },
};

/// Resolves the settings of the end-to-end probe, if the spec has any.
pub(super) fn end_to_end(
    gateway: &GatewaySpec,
    key: Option<Result<Referenced, StepFailure>>,
) -> Option<EndToEnd> {
    let settings = gateway.end_to_end_probe.as_ref()?;
    let seconds = u64::try_from(settings.interval_seconds).unwrap_or_default();
    let url = settings.probe_url.as_deref();
    Some(EndToEnd {
        interval: Duration::from_secs(seconds.max(1)),
        probe_url: url.map(|url| url.trim_end_matches('/').to_owned()),
        key: key.map(|key| key.map(probe_key)),
    })
}

fn probe_key(Referenced { reference, value }: Referenced) -> ProbeKey {
    ProbeKey {
        secret: reference.name,
        entry: reference.key,
        // Like the app, which reads keys line by line.
        value: value.map(|value| String::from_utf8_lossy(value.0.trim_ascii()).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;
    use crate::api::ApiKeyRef;

    #[test]
    fn the_key_is_that_line_of_the_secret_and_the_address_ends_without_a_slash() {
        let settings = json!({"probeUrl": "http://controller.ingress.svc/"});
        let gateway = json!({"endToEndProbe": settings});
        let gateway: GatewaySpec = serde_json::from_value(gateway).unwrap();
        let key = |value: Option<&str>| Referenced {
            reference: ApiKeyRef {
                name: "probe".to_owned(),
                key: "api-key".to_owned(),
            },
            value: value.map(|value| ByteString(value.into())),
        };
        let resolved = end_to_end(&gateway, Some(Ok(key(Some("s3cret\n"))))).unwrap();
        assert_eq!(resolved.interval, Duration::from_secs(300));
        let url = resolved.probe_url.as_deref();
        assert_eq!(url, Some("http://controller.ingress.svc"));
        let value = |settings: EndToEnd| settings.key.unwrap().unwrap().value;
        assert_eq!(value(resolved).as_deref(), Some("s3cret"));
        let missing = end_to_end(&gateway, Some(Ok(key(None)))).unwrap();
        assert_eq!(value(missing), None);
        assert_eq!(end_to_end(&GatewaySpec::default(), None), None);
    }
}
