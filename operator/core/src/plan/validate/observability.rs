//! Validation of the collector and its backend.

use super::held::HeldComponents;
use crate::{
    api::{ExternalBackend as Spec, OtlpProtocol, Profile},
    model::{
        facts::{HeaderFacts, StoreFacts},
        metadata::Component,
        stack::{Backend, Collector, Headers, ResolvedBackend, ResolvedCollector},
    },
    plan::{
        build::otel,
        error::ValidateError,
        pod_settings::pod,
        stores::{common::StoreContext, telemetry},
    },
};

/// Resolves the collector and its backend; `None` while the profile is off. `own` contains the facts about the
/// stack's own backend, if it has one. A backend that does not pass holds the collector as well, which sends to it.
pub(super) fn collector(
    context: &StoreContext<'_>,
    own: Option<StoreFacts>,
    headers: Option<HeaderFacts>,
    held: &mut HeldComponents,
) -> Option<Collector> {
    let spec = &context.stack.spec;
    if !spec.profiles.contains(&Profile::Observability) {
        return None;
    }
    let observability = &spec.observability;
    if let Some(external) = &observability.collector.external {
        return Some(Collector::External {
            endpoint: external.endpoint.trim_end_matches('/').to_owned(),
        });
    }
    let own_backend = own.is_some();
    let backend = match (own, &observability.backend.external) {
        (Some(facts), _) => telemetry::resolve(context, facts).map(Backend::Managed),
        (None, Some(external)) => {
            external_backend(context, external, headers).map(Backend::External)
        }
        (None, None) => Ok(Backend::Nowhere),
    };
    let Some(backend) = held.part(Component::Otel, backend) else {
        return Some(Collector::Held { own_backend });
    };
    let managed = observability.collector.managed.as_deref();
    let managed = managed.cloned().unwrap_or_default();
    Some(Collector::Managed(Box::new(ResolvedCollector {
        replicas: i32::from(!spec.stopped),
        pod: pod(
            &managed.pod,
            &context.defaults.images.otel,
            otel::default_resources(),
        ),
        backend,
    })))
}

fn external_backend(
    context: &StoreContext<'_>,
    spec: &Spec,
    headers: Option<HeaderFacts>,
) -> Result<ResolvedBackend, ValidateError> {
    let address = |own: &Option<String>, signal: &str| {
        let base = spec.endpoint.as_deref().unwrap_or_default();
        match (own, spec.protocol) {
            (Some(own), OtlpProtocol::Http) => own.clone(),
            (Some(own), OtlpProtocol::Grpc) => own.trim_end_matches('/').to_owned(),
            (None, OtlpProtocol::Http) => format!("{}/v1/{signal}", base.trim_end_matches('/')),
            (None, OtlpProtocol::Grpc) => base.trim_end_matches('/').to_owned(),
        }
    };
    Ok(ResolvedBackend {
        protocol: spec.protocol,
        traces: address(&spec.traces_endpoint, "traces"),
        logs: address(&spec.logs_endpoint, "logs"),
        headers: headers
            .map(|facts| known_headers(context, facts))
            .transpose()?,
    })
}

fn known_headers(context: &StoreContext<'_>, facts: HeaderFacts) -> Result<Headers, ValidateError> {
    let HeaderFacts {
        secret,
        data,
        usable,
    } = facts;
    let data = data.map_err(ValidateError::Unread)?;
    match data.filter(|data| !data.is_empty()) {
        Some(_) if context.defaults.is_restricted() && !usable => {
            Err(ValidateError::SecretNotUsable {
                field: "observability.backend.external.headersSecretRef".to_owned(),
                secret,
            })
        }
        Some(data) => Ok(Headers {
            checksum: context.checksum(&data),
            names: data.into_keys().collect(),
            secret,
        }),
        None => Err(ValidateError::HeadersNotFound(secret)),
    }
}
