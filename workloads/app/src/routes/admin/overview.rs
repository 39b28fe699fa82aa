//! The client of a request, and the state of the service as this replica sees it: what the console asks for first.

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde::Serialize;
use shortener_common::{
    backends::{Backends, StoreState},
    internal::Process,
};

use super::{caller, private};
use crate::{error::Error, scope::Scope, state::AppState};

/// The response of `GET /api/admin/overview`.
#[derive(Debug, Serialize)]
struct Overview {
    client: Caller,
    /// Hosts of short URLs, that of the public address first.
    hosts: Vec<String>,
    /// Identity of the replica that answered.
    replica: String,
    version: &'static str,
    stores: Stores,
    /// True if traces are sent to a collector.
    traces: bool,
    /// True if clicks are counted.
    clicks: bool,
}

/// The client that asks.
#[derive(Debug, Serialize)]
struct Caller {
    name: String,
    scopes: Vec<&'static str>,
}

/// The state of each store; null if its profile is off.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Stores {
    database: Store,
    cache: Option<Store>,
    queue: Option<Store>,
    vector: Option<Store>,
}

/// The state of a store.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Store {
    /// False if the replica cannot use it.
    up: bool,
    /// Reason for which it cannot be used, or not for everything, if it is known.
    reason: Option<String>,
}

/// Returns the client and the state of the service.
pub async fn overview(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let client = caller(&request)?;
    let scopes = Scope::ALL.into_iter();
    let scopes = scopes.filter(|scope| client.scopes.contains(*scope));
    Ok(private(Overview {
        client: Caller {
            name: client.name.to_string(),
            scopes: scopes.map(Scope::as_str).collect(),
        },
        hosts: state
            .config
            .hosts()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        replica: state.host.clone(),
        version: env!("CARGO_PKG_VERSION"),
        stores: state.backends().into(),
        traces: state.config.telemetry.is_on(),
        clicks: state.clicks.is_some(),
    }))
}

impl From<Backends> for Stores {
    fn from(backends: Backends) -> Self {
        Self {
            database: backends.database.into(),
            cache: backends.cache.map(Into::into),
            queue: backends.queue.map(Into::into),
            vector: backends.vector.map(Into::into),
        }
    }
}

impl From<StoreState> for Store {
    fn from(state: StoreState) -> Self {
        match state {
            StoreState::Unknown => Self {
                up: false,
                reason: None,
            },
            StoreState::Up => Self {
                up: true,
                reason: None,
            },
            StoreState::Down(fault) => Self {
                up: fault.is_partial(),
                reason: Some(fault.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use shortener_common::backends::Fault;

    use super::*;

    #[test]
    fn a_store_is_up_also_if_it_does_not_take_everything() {
        for (state, up, reason) in [
            (StoreState::Unknown, false, None),
            (StoreState::Up, true, None),
            (
                StoreState::Down(Fault::Denied),
                false,
                Some("the server refuses the user, the password, the key, or a right of the user"),
            ),
            (
                StoreState::Down(Fault::LinksReserved),
                true,
                Some("the database takes no links of clients without keys"),
            ),
        ] {
            let expected = Store {
                up,
                reason: reason.map(str::to_owned),
            };
            assert_eq!(Store::from(state), expected);
        }
    }
}
