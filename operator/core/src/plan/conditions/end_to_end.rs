//! `EndToEnd`: a link that the operator makes is followed, and a job that it sends is done, through the gateway.

use super::{Verdict, View};
use crate::{
    model::{
        measured::{EndToEndResult, Fault, Step},
        metadata::{Component, USABLE_BY_STACKS, component_name},
        stack::{EndToEnd, EndToEndTarget, ProbeKey, Routing, ValidatedStack},
    },
    plan::build,
};

/// Destination of the links: a host that never exists (RFC 2606), so they lead no one anywhere.
const DESTINATION: &str = "https://end-to-end.invalid/";
/// Name of the task of the jobs, which workers only record.
pub const TASK: &str = "end-to-end";

/// Returns the end-to-end probe that is tried, if the stack is to have one and something of it runs.
pub fn target(stack: &ValidatedStack) -> Option<EndToEndTarget> {
    let settings = stack.gateway.end_to_end.as_ref()?;
    // At the host of another stack, the link would be made there.
    let is_away = stack.stopped || stack.gateway.is_shut_out();
    if is_away || not_tried(stack, settings).is_some() {
        return None;
    }
    Some(EndToEndTarget {
        address: address(stack, settings),
        host: stack.gateway.host().to_owned(),
        key: known_key(settings),
        destination: destination(stack),
        jobs: has_workers(stack),
        interval: settings.interval,
    })
}

/// Returns the address to which the requests go.
fn address(stack: &ValidatedStack, settings: &EndToEnd) -> String {
    let named = settings.probe_url.clone();
    let address = named.or_else(|| own_address(stack));
    address.unwrap_or_else(|| stack.public_url.clone())
}

/// Returns true for the stack's own gateway, for its hosts over HTTPS, where a certificate proves who answers, and for the
/// hosts of the operator's settings. Everyone who can edit the stack chooses the address, and the operator reaches more
/// addresses than most users.
fn is_allowed(stack: &ValidatedStack, settings: &EndToEnd, address: &str) -> bool {
    let Some((scheme, authority)) = address.split_once("://") else {
        return false;
    };
    let host = authority.split(':').next().unwrap_or_default();
    let is_of = |pattern: &String| match pattern.strip_prefix('*') {
        Some(domain) => host.ends_with(domain),
        None => host == pattern,
    };
    let is_own_host = |own: &String| scheme == "https" && authority == own;
    own_address(stack).as_deref() == Some(address)
        || stack.gateway.hosts.iter().any(is_own_host)
        || settings.probe_hosts.iter().any(is_of)
}

/// Returns true if only this stack's gateway or the owner of a certificate can read a request to this address. Everyone
/// who can edit the stack chooses the address, also without the right to read the Secret of the key.
fn keeps_secrets(stack: &ValidatedStack, address: &str) -> bool {
    address.starts_with("https://") || own_address(stack).as_deref() == Some(address)
}

/// Returns the address of the gateway's Service if it routes requests and does not send clients to HTTPS, whose
/// certificate names the public host.
fn own_address(stack: &ValidatedStack) -> Option<String> {
    let tls = stack.gateway.own_tls();
    let redirects = tls.is_some_and(|tls| tls.redirect);
    match stack.gateway.routing {
        Routing::Standalone { .. } | Routing::GatewayApi { .. } if !redirects => {
            let identity = &stack.identity;
            let service = component_name(&identity.name, Component::Gateway);
            let port = build::gateway::SERVICE_PORT;
            Some(format!(
                "http://{service}.{}.svc:{port}",
                identity.namespace
            ))
        }
        Routing::IngressNginx { .. } | Routing::Standalone { .. } | Routing::GatewayApi { .. } => {
            None
        }
    }
}

/// Returns a destination that the stack's rules allow.
fn destination(stack: &ValidatedStack) -> String {
    let rules = stack.app.links.destinations.as_ref();
    let allowed = rules.and_then(|rules| rules.allow_hosts.as_ref());
    let Some(pattern) = allowed.and_then(|hosts| hosts.first()) else {
        return DESTINATION.to_owned();
    };
    match pattern.strip_prefix("*.") {
        Some(domain) => format!("https://end-to-end.{domain}/"),
        None => format!("https://{pattern}/"),
    }
}

/// Returns true when workers do jobs. Without one, a job waits, as the user asked for.
fn has_workers(stack: &ValidatedStack) -> bool {
    let queue = stack.queue.as_ref();
    stack.publishes_jobs() && queue.is_some_and(|queue| queue.workers.least() > 0)
}

/// Returns the value of the key, if the spec refers to one and it is known.
fn known_key(settings: &EndToEnd) -> Option<String> {
    settings.key.as_ref()?.as_ref().ok()?.value.clone()
}

/// Returns the verdict while no request is sent: its address is not allowed, or the key that the spec refers to is not
/// known, or would be sent in plain text.
fn not_tried(stack: &ValidatedStack, settings: &EndToEnd) -> Option<Verdict> {
    let address = address(stack, settings);
    if !is_allowed(stack, settings, &address) {
        return Some(Verdict::no(
            "AddressNotAllowed",
            format!(
                "gateway.endToEndProbe: nothing is sent to {address}: set probeUrl to https:// and one of gateway.hosts, or to the Service of the ingress controller (probeHosts of the operator: {})",
                settings.probe_hosts.join(", ")
            ),
        ));
    }
    match settings.key.as_ref()? {
        Ok(ProbeKey {
            usable: false,
            value: Some(_),
            secret,
            ..
        }) => Some(Verdict::no(
            "SecretNotUsable",
            format!(
                "gateway.endToEndProbe.keySecretRef: Secret {secret} lacks the label {USABLE_BY_STACKS}=true, which admits it (podTemplatePolicy Restricted of the operator): label it"
            ),
        )),
        Ok(_) if !keeps_secrets(stack, &address) => Some(Verdict::no(
            "KeyNeedsTLS",
            format!(
                "gateway.endToEndProbe.keySecretRef: the key is not sent to {address} in plain text: set gateway.endToEndProbe.probeUrl to an https:// address"
            ),
        )),
        Ok(ProbeKey { value: Some(_), .. }) => None,
        Ok(ProbeKey { secret, entry, .. }) => Some(Verdict::no(
            "KeyMissing",
            format!(
                "gateway.endToEndProbe.keySecretRef: Secret {secret} does not exist, or has no key {entry}: create it"
            ),
        )),
        Err(failure) => Some(Verdict::no(failure.reason, failure.message.clone())),
    }
}

/// Returns the verdict; `None` until it is known.
pub fn end_to_end(view: View<'_>) -> Option<Verdict> {
    let settings = view.stack.gateway.end_to_end.as_ref()?;
    not_tried(view.stack, settings).or_else(|| {
        let end_to_end = view.live.end_to_end.as_ref()?;
        Some(match end_to_end.failed {
            None => passed(view.stack, end_to_end),
            Some((step, fault)) => failed(step, fault, &end_to_end.trace),
        })
    })
}

fn passed(stack: &ValidatedStack, end_to_end: &EndToEndResult) -> Verdict {
    let done = if has_workers(stack) {
        "a link was made and followed and a job done"
    } else {
        "a link was made and followed"
    };
    let EndToEndResult {
        trace,
        milliseconds,
        ..
    } = end_to_end;
    Verdict::yes(
        "Passed",
        format!(
            "{done} through the gateway, in {milliseconds} ms when this became true (trace {trace})"
        ),
    )
}

fn failed(step: Step, fault: Fault, trace: &str) -> Verdict {
    let (reason, what) = match step {
        Step::Shorten => ("ShortenFailed", "the creation of a link"),
        Step::Follow => ("FollowFailed", "the link that was made"),
        Step::Enqueue => ("EnqueueFailed", "a job that was sent"),
        Step::Result => ("JobFailed", "the state of a job"),
    };
    if fault.is_about_keys() {
        return Verdict::no(
            "KeyRefused",
            format!(
                "{what} was refused for want of a key: name in gateway.endToEndProbe.keySecretRef a key for shorten and jobs, or, if only the job was refused, add {TASK} to queue.publicTasks (trace {trace})"
            ),
        );
    }
    let why = match fault {
        Fault::NoAnswer => "got no answer in time: check that the operator can resolve and reach the address in gateway.endToEndProbe.probeUrl, or the gateway itself".to_owned(),
        Fault::Status(status) => format!("was answered with the status {status}: follow the trace in the log of the app"),
        Fault::Content => "was answered with something else than this service would: check that the address leads to this stack".to_owned(),
        Fault::JobFailed => "says that the worker failed at it: see the log of the workers".to_owned(),
        Fault::JobLate => "does not say done in time: see the depth of the queue and the log of the workers".to_owned(),
    };
    Verdict::no(reason, format!("{what} {why} (trace {trace})"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        api::{DestinationsSpec, WorkersAutoscaling},
        model::{failure::StepFailure, live::Live, stack::Autoscaled, worker_demand::WorkerDemand},
        testing::stack::minimal_stack,
    };

    fn settings(key: Option<Option<&str>>) -> EndToEnd {
        EndToEnd {
            interval: Duration::from_secs(300),
            probe_url: None,
            probe_hosts: vec!["*".to_owned()],
            key: key.map(|value| {
                Ok(ProbeKey {
                    usable: true,
                    secret: "probe".to_owned(),
                    entry: "api-key".to_owned(),
                    value: value.map(str::to_owned),
                })
            }),
        }
    }

    fn probed(mut stack: ValidatedStack) -> ValidatedStack {
        stack.gateway.end_to_end = Some(settings(None));
        stack
    }

    #[test]
    fn the_gateways_service_is_asked_if_it_routes_and_the_public_address_otherwise() {
        let address = |stack: ValidatedStack| target(&probed(stack)).unwrap().address;
        let own = "http://acme-gateway.links.svc:80";
        assert_eq!(address(minimal_stack().standalone()), own);
        assert_eq!(address(minimal_stack().gateway_api()), own);
        let public = minimal_stack().public_url;
        assert_eq!(address(minimal_stack()), public);
        let secure = minimal_stack()
            .standalone()
            .host("go.example.com")
            .tls("go-tls");
        assert_eq!(address(secure.clone()), public);
        assert_eq!(address(secure.without_redirect()), own);
        let mut named = probed(minimal_stack().standalone());
        if let Some(settings) = &mut named.gateway.end_to_end {
            settings.probe_url = Some("http://controller.ingress.svc".to_owned());
        }
        assert_eq!(
            target(&named).unwrap().address,
            "http://controller.ingress.svc"
        );
    }

    #[test]
    fn nothing_is_tried_that_was_not_asked_for() {
        assert_eq!(target(&minimal_stack()), None);
        assert_eq!(target(&probed(minimal_stack().stopped())), None);
        let jobs = |stack: ValidatedStack| target(&probed(stack)).unwrap().jobs;
        assert!(!jobs(minimal_stack()));
        assert!(jobs(minimal_stack().queue()));
        assert!(!jobs(minimal_stack().queue().draining()));
        let mut idle = minimal_stack().queue();
        if let Some(queue) = &mut idle.queue {
            queue.workers.replicas = 0;
        }
        assert!(!jobs(idle));
        let limits = WorkersAutoscaling {
            min_replicas: 0,
            max_replicas: 5,
            jobs_per_worker: 10,
            stabilization_window_seconds: 300,
        };
        let mut scaled = minimal_stack().queue();
        if let Some(queue) = &mut scaled.queue {
            let count = WorkerDemand::default().decide(&limits, Some(1));
            queue.workers.autoscaling = Some(Autoscaled { limits, count });
        }
        assert!(!jobs(scaled), "a job would keep a worker running");
        let conflict = probed(minimal_stack().conflict("links/other"));
        assert_eq!(target(&conflict), None);
    }

    #[test]
    fn the_destination_is_one_that_the_service_allows() {
        for (hosts, expected) in [
            (None, "https://end-to-end.invalid/"),
            (Some("example.org"), "https://example.org/"),
            (Some("*.example.org"), "https://end-to-end.example.org/"),
        ] {
            let mut stack = probed(minimal_stack());
            stack.app.links.destinations = Some(DestinationsSpec {
                allow_hosts: hosts.map(|host| [host.to_owned()].into()),
                ..DestinationsSpec::default()
            });
            assert_eq!(target(&stack).unwrap().destination, expected);
        }
    }

    fn verdict(stack: &ValidatedStack, failed: Option<(Step, Fault)>) -> Verdict {
        let live = Live {
            end_to_end: Some(EndToEndResult {
                trace: "4bf9".to_owned(),
                milliseconds: 12,
                failed,
            }),
            ..Live::default()
        };
        end_to_end(View { stack, live: &live }).unwrap()
    }

    #[test]
    fn each_failure_names_its_step_the_remedy_and_the_trace() {
        let stack = probed(minimal_stack().queue());
        for (failed, reason, words) in [
            (None, "Passed", "a job done"),
            (
                Some((Step::Shorten, Fault::Status(503))),
                "ShortenFailed",
                "status 503",
            ),
            (
                Some((Step::Shorten, Fault::NoAnswer)),
                "ShortenFailed",
                "probeUrl",
            ),
            (
                Some((Step::Follow, Fault::Content)),
                "FollowFailed",
                "leads to this stack",
            ),
            (
                Some((Step::Enqueue, Fault::Status(403))),
                "KeyRefused",
                "publicTasks",
            ),
            (
                Some((Step::Shorten, Fault::Status(401))),
                "KeyRefused",
                "keySecretRef",
            ),
            (
                Some((Step::Result, Fault::JobFailed)),
                "JobFailed",
                "log of the workers",
            ),
            (
                Some((Step::Result, Fault::JobLate)),
                "JobFailed",
                "depth of the queue",
            ),
        ] {
            let found = verdict(&stack, failed);
            assert_eq!(
                (found.holds, found.fault),
                (failed.is_none(), false),
                "{failed:?}"
            );
            assert_eq!(found.reason, reason);
            assert!(found.message.contains(words), "{}", found.message);
            assert!(found.message.contains("trace 4bf9"), "{}", found.message);
        }
    }

    #[test]
    fn a_key_that_is_not_there_is_named_and_no_request_is_sent_without_it() {
        let mut stack = minimal_stack().standalone();
        stack.gateway.end_to_end = Some(settings(Some(None)));
        assert_eq!(target(&stack), None);
        assert_eq!(verdict(&stack, None).reason, "KeyMissing");
        stack.gateway.end_to_end = Some(settings(Some(Some("s3cret"))));
        let target = target(&stack).unwrap();
        assert_eq!(target.key.as_deref(), Some("s3cret"));
        let shown = format!("{target:?} {stack:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_key_goes_to_the_stacks_own_gateway_or_over_tls_and_nowhere_else() {
        let own = "http://acme-gateway.links.svc:80";
        for (url, sent) in [
            (None, true),
            (Some(own), true),
            (Some("https://go.example.com"), true),
            (Some("http://go.example.com"), false),
            (Some("http://acme-gateway.links.svc:81"), false),
            (Some("http://acme-gateway.links.svc.example.com"), false),
            (Some("http://zenith-gateway.links.svc:80"), false),
        ] {
            let mut stack = minimal_stack().standalone();
            stack.gateway.end_to_end = Some(EndToEnd {
                probe_url: url.map(str::to_owned),
                ..settings(Some(Some("s3cret")))
            });
            let key = target(&stack).and_then(|target| target.key);
            assert_eq!(key.as_deref(), sent.then_some("s3cret"), "{url:?}");
            let reason = if sent { "Passed" } else { "KeyNeedsTLS" };
            assert_eq!(verdict(&stack, None).reason, reason, "{url:?}");
            // Without a key, each address is as good as another.
            let settings = stack.gateway.end_to_end.as_mut().unwrap();
            settings.key = None;
            assert!(target(&stack).is_some(), "{url:?}");
        }
        // Behind an ingress controller, the own gateway routes nothing.
        let mut stack = minimal_stack();
        stack.gateway.end_to_end = Some(settings(Some(Some("s3cret"))));
        assert!(stack.public_url.starts_with("http://"));
        assert_eq!(target(&stack), None);
    }

    #[test]
    fn requests_go_to_the_stacks_own_gateway_and_to_the_hosts_of_the_operator_alone() {
        for (url, sent) in [
            (None, true),
            (Some("http://acme-gateway.links.svc:80"), true),
            (Some("https://go.example.com"), true),
            (Some("http://controller.ingress-nginx.svc"), true),
            (Some("https://controller.ingress-nginx.svc:8443"), true),
            (Some("http://door.test"), true),
            (Some("http://go.example.com"), false),
            (Some("https://go.example.com:6443"), false),
            (Some("https://other.example.com"), false),
            (Some("http://acme-gateway.links.svc:8080"), false),
            (Some("http://acme-postgres.links.svc:5432"), false),
            (Some("http://10.0.0.1"), false),
            (Some("http://ingress-nginx.svc"), false),
            (Some("http://x.door.test"), false),
            (Some("http://controller.ingress-nginx.svc.evil.test"), false),
            (Some("http://evilingress-nginx.svc"), false),
        ] {
            let mut stack = minimal_stack().standalone();
            stack.gateway.hosts = vec!["go.example.com".to_owned()];
            stack.gateway.end_to_end = Some(EndToEnd {
                probe_url: url.map(str::to_owned),
                probe_hosts: ["*.ingress-nginx.svc", "door.test"]
                    .map(str::to_owned)
                    .into(),
                ..settings(None)
            });
            assert_eq!(target(&stack).is_some(), sent, "{url:?}");
            let reason = if sent { "Passed" } else { "AddressNotAllowed" };
            assert_eq!(verdict(&stack, None).reason, reason, "{url:?}");
        }
        // Without a probeUrl, the address behind an ingress controller is the public one, which is the user's text.
        let mut stack = minimal_stack();
        stack.public_url = "http://10.0.0.1:6443".to_owned();
        stack.gateway.end_to_end = Some(EndToEnd {
            probe_hosts: Vec::new(),
            ..settings(None)
        });
        assert_eq!(target(&stack), None);
    }

    #[test]
    fn the_key_of_a_secret_without_its_label_is_not_sent() {
        let mut stack = minimal_stack().standalone();
        let mut settings = settings(Some(Some("s3cret")));
        if let Some(Ok(key)) = &mut settings.key {
            key.usable = false;
        }
        stack.gateway.end_to_end = Some(settings);
        assert_eq!(target(&stack), None);
        assert_eq!(verdict(&stack, None).reason, "SecretNotUsable");
    }

    #[test]
    fn a_key_that_could_not_be_read_is_no_missing_one_and_no_request_is_sent_without_it() {
        let mut stack = minimal_stack();
        stack.gateway.end_to_end = Some(EndToEnd {
            key: Some(Err(StepFailure {
                reason: "ReadFailed",
                message: "the answer".to_owned(),
                needs_an_edit: false,
                waits: false,
            })),
            ..settings(None)
        });
        assert_eq!(target(&stack), None);
        let found = verdict(&stack, None);
        assert_eq!((found.holds, found.fault), (false, false));
        let told = (found.reason, found.message.as_str());
        assert_eq!(told, ("ReadFailed", "the answer"));
    }
}
