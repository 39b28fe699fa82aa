//! The stores as the stack's own programs see them: the pod to ask, its answer, and what is known of old.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Pod;
use kube_core::ResourceExt;
use serde::Deserialize;

use super::all;
use crate::{
    api::ShortenerStackStatus,
    model::{
        metadata::Component,
        store_state::{StoreFault, StoreFaults, StoreState, StoreStates},
    },
    plan::{monitoring::INTERNAL_PORT, verdict::pods},
};

/// Path at which the programs tell the state of the stores.
pub const PATH: &str = "/backends";
/// Name of the container that migrates the database.
pub(in crate::plan) const MIGRATE: &str = "migrate";

/// The pod to ask for the state of the stores. It is asked anew as soon as a pod of a store becomes ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Informant {
    pub address: SocketAddr,
    /// Names of the pods of stores that are ready.
    stores: Vec<String>,
}

impl Informant {
    /// Returns the pod to ask among the pods of a stack, if there is one.
    pub fn among(pods: &[Arc<Pod>]) -> Option<Self> {
        let stores = all().flat_map(|store| pods::of(pods, store.component));
        let ready = stores.filter(|pod| pods::is_ready(pod));
        let mut stores: Vec<String> = ready.map(|pod| pod.name_any()).collect();
        stores.sort();
        Some(Self {
            address: informant(pods)?,
            stores,
        })
    }
}

/// Returns the address of the pod to ask for the state of the stores. The app uses every store.
pub fn informant(pods: &[Arc<Pod>]) -> Option<SocketAddr> {
    app_at(pods, INTERNAL_PORT)
}

/// Returns the address of a port of the newest pod of the app that is ready, because it has the current settings.
pub(in crate::plan) fn app_at(pods: &[Arc<Pod>], port: i32) -> Option<SocketAddr> {
    let newest = pods::of(pods, Component::App)
        .filter(|pod| pods::is_ready(pod))
        .max_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.name_any()))?;
    let address: IpAddr = newest.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    Some(SocketAddr::new(address, u16::try_from(port).ok()?))
}

#[derive(Deserialize)]
struct Answer {
    up: bool,
    fault: Option<String>,
}

/// Reads the answer of a program; `None` if it is malformed. Nothing of its text is kept: a word of a newer program
/// that is not known here says only that the store is not used.
pub fn read(answer: &[u8]) -> Option<StoreStates> {
    let answers: BTreeMap<String, Answer> = serde_json::from_slice(answer).ok()?;
    let states = all().filter_map(|store| {
        let Answer { up, fault } = answers.get(store.field)?;
        let fault = fault.as_deref().and_then(StoreFault::of_word);
        let state = match (*up, fault) {
            (true, _) => StoreState::Up,
            (false, Some(fault)) => StoreState::Down(fault),
            (false, None) => StoreState::Unknown,
        };
        Some((store.component, state))
    });
    Some(states.collect())
}

/// Returns the faults that a status shows. An operator that has just started knows no others yet.
pub fn reported(status: &ShortenerStackStatus) -> StoreFaults {
    let reported = all().filter_map(|store| {
        let type_ = store.condition.as_ref()?.type_;
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|condition| condition.type_ == type_)?;
        Some((store.component, StoreFault::of_reason(&condition.reason)?))
    });
    reported.collect()
}

/// Returns the fault with which the last migration of the database ended, unless one has succeeded since. A pod whose
/// migration fails has no program yet that could answer.
pub(super) fn of_migration(pods: &[Arc<Pod>]) -> Option<StoreFault> {
    pods::of(pods, Component::App).find_map(|pod| {
        let containers = pod.status.as_ref()?.init_container_statuses.as_ref()?;
        let migrate = containers.iter().find(|found| found.name == MIGRATE)?;
        let now = migrate.state.as_ref()?.terminated.as_ref();
        let before = migrate.last_state.as_ref();
        let end = now.or_else(|| before?.terminated.as_ref())?;
        let words = end.message.as_deref().filter(|_| end.exit_code != 0)?;
        words.lines().rev().find_map(StoreFault::of_word)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shortener_common::backends::{Backends, Fault, StoreState as Told};

    use super::*;
    use crate::model::metadata::labels;

    fn pod(name: &str, component: Component, created: i64, status: Value) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {
                    "name": name,
                    "labels": labels("acme", component),
                    "creationTimestamp": format!("2026-01-01T00:00:{created:02}Z"),
                },
                "status": status,
            }))
            .unwrap(),
        )
    }

    fn at(ip: &str, ready: &str) -> Value {
        json!({"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]})
    }

    #[test]
    fn every_word_of_the_programs_is_understood() {
        for (told, fault) in Fault::ALL.into_iter().zip(StoreFault::ALL) {
            let backends = Backends {
                database: Told::Up,
                cache: Some(Told::Unknown),
                queue: Some(Told::Down(told)),
                vector: Some(Told::Down(told)),
            };
            let answer = backends.to_json().to_string();
            let expected = StoreStates::from([
                (Component::Postgres, StoreState::Up),
                (Component::Cache, StoreState::Unknown),
                (Component::Rabbitmq, StoreState::Down(fault)),
                (Component::Qdrant, StoreState::Down(fault)),
            ]);
            assert_eq!(read(answer.as_bytes()), Some(expected), "{answer}");
        }
        assert_eq!(Fault::ALL.len(), StoreFault::ALL.len());
    }

    #[test]
    fn an_answer_of_another_release_is_read_as_far_as_it_is_known() {
        let answer =
            br#"{"database": {"up": false, "fault": "eaten", "since": 1}, "moon": {"up": true}}"#;
        let expected = StoreStates::from([(Component::Postgres, StoreState::Unknown)]);
        assert_eq!(read(answer), Some(expected));
        for malformed in ["", "[]", "{\"cache\": 1}", "not found"] {
            assert_eq!(read(malformed.as_bytes()), None, "{malformed}");
        }
    }

    #[test]
    fn the_newest_pod_of_the_app_that_is_ready_is_asked() {
        let old = pod("acme-app-b", Component::App, 1, at("10.0.0.1", "True"));
        let new = pod("acme-app-a", Component::App, 2, at("fd00::2", "True"));
        let starting = pod("acme-app-c", Component::App, 3, at("10.0.0.3", "False"));
        let worker = pod(
            "acme-worker-a",
            Component::Worker,
            4,
            at("10.0.0.4", "True"),
        );
        let mut pods = vec![old, starting, worker];
        let address = |pods: &[Arc<Pod>]| informant(pods).map(|address| address.to_string());
        assert_eq!(address(&pods).as_deref(), Some("10.0.0.1:9090"));
        pods.push(new);
        assert_eq!(address(&pods).as_deref(), Some("[fd00::2]:9090"));
        assert_eq!(address(&pods[1..3]), None);
    }

    #[test]
    fn a_store_that_becomes_ready_is_asked_about_at_once() {
        let app = pod("acme-app-a", Component::App, 1, at("10.0.0.1", "True"));
        let asked = |ready: &str| {
            let database = pod(
                "acme-postgres-0",
                Component::Postgres,
                1,
                at("10.0.0.2", ready),
            );
            Informant::among(&[app.clone(), database])
        };
        assert_ne!(asked("True"), asked("False"));
        assert_eq!(asked("True"), asked("True"));
        let address = |informant: Option<Informant>| informant.map(|informant| informant.address);
        assert_eq!(address(asked("True")), address(asked("False")));
        assert_eq!(Informant::among(&[]), None);
    }

    #[test]
    fn a_failed_migration_says_why_until_one_succeeds() {
        let ended = |code: i32, message: &str| json!({"terminated": {"exitCode": code, "message": message}});
        let failed = ended(1, "app: cannot migrate the database: …\ntls_expired\n");
        let running = json!({"running": {}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let none = json!({});
        let expired = Some(StoreFault::TlsExpired);
        for (state, last, expected) in [
            (&failed, &none, expired),
            (&waiting, &failed, expired),
            (&running, &failed, expired),
            (&ended(0, ""), &failed, None),
            (&running, &none, None),
            (&ended(1, "app: tls_expired is not it"), &none, None),
        ] {
            let statuses = json!({"initContainerStatuses": [{
                "name": "migrate", "image": "", "imageID": "", "ready": false, "restartCount": 1,
                "state": state, "lastState": last,
            }]});
            let pods = [pod("acme-app-a", Component::App, 1, statuses)];
            assert_eq!(of_migration(&pods), expected, "{state} after {last}");
        }
    }

    #[test]
    fn the_faults_of_a_status_are_found_again() {
        let condition = |type_: &str, reason: &str| {
            json!({
                "type": type_, "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let status = json!({"conditions": [
            condition("Degraded", "TlsExpired"),
            condition("DatabaseReady", "External"),
            condition("QueueReady", "LoginRefused"),
        ]});
        let status: ShortenerStackStatus = serde_json::from_value(status).unwrap();
        let expected = StoreFaults::from([(Component::Rabbitmq, StoreFault::LoginRefused)]);
        assert_eq!(reported(&status), expected);
    }
}
