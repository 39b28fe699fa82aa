//! The end-to-end probe through the gateway that the operator tries.

use std::time::Duration;

use crate::{
    api::GatewaySpec,
    model::{
        defaults::Defaults,
        facts::Referenced,
        failure::StepFailure,
        stack::{EndToEnd, ProbeKey},
    },
};

/// Resolves the settings of the end-to-end probe, if the spec has any.
pub(super) fn end_to_end(
    gateway: &GatewaySpec,
    defaults: &Defaults,
    key: Option<Result<Referenced, StepFailure>>,
) -> Option<EndToEnd> {
    let settings = gateway.end_to_end_probe.as_ref()?;
    let seconds = u64::try_from(settings.interval_seconds).unwrap_or_default();
    let url = settings.probe_url.as_deref();
    Some(EndToEnd {
        interval: Duration::from_secs(seconds.max(1)),
        probe_url: url.map(|url| url.trim_end_matches('/').to_owned()),
        probe_hosts: defaults.probe_hosts.clone(),
        key: key.map(|key| key.map(|key| probe_key(key, defaults))),
    })
}

fn probe_key(key: Referenced, defaults: &Defaults) -> ProbeKey {
    let Referenced {
        reference,
        value,
        usable,
    } = key;
    ProbeKey {
        usable: usable || !defaults.is_restricted(),
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
    use crate::{api::ApiKeyRef, model::defaults::PodTemplatePolicy, testing::stack::defaults};

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
            usable: false,
        };
        let end_to_end = |key| end_to_end(&gateway, &defaults(), Some(Ok(key))).unwrap();
        let resolved = end_to_end(key(Some("s3cret\n")));
        assert_eq!(resolved.interval, Duration::from_secs(300));
        let url = resolved.probe_url.as_deref();
        assert_eq!(url, Some("http://controller.ingress.svc"));
        let value = |settings: EndToEnd| settings.key.unwrap().unwrap().value;
        assert_eq!(value(resolved).as_deref(), Some("s3cret"));
        assert_eq!(value(end_to_end(key(None))), None);
        assert_eq!(
            super::end_to_end(&GatewaySpec::default(), &defaults(), None),
            None
        );
    }

    #[test]
    fn the_secret_of_the_key_needs_its_label_unless_the_policy_admits_every_secret() {
        let gateway = json!({"endToEndProbe": {}});
        let gateway: GatewaySpec = serde_json::from_value(gateway).unwrap();
        for (policy, label, usable) in [
            (PodTemplatePolicy::Restricted, false, false),
            (PodTemplatePolicy::Restricted, true, true),
            (PodTemplatePolicy::Unrestricted, false, true),
        ] {
            let defaults = Defaults {
                pod_template_policy: policy,
                ..defaults()
            };
            let key = Referenced {
                reference: ApiKeyRef {
                    name: "probe".to_owned(),
                    key: "api-key".to_owned(),
                },
                value: None,
                usable: label,
            };
            let resolved = end_to_end(&gateway, &defaults, Some(Ok(key))).unwrap();
            assert_eq!(resolved.key.unwrap().unwrap().usable, usable, "{policy:?}");
        }
    }
}
