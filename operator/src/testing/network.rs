//! The network of a cluster, for tests of its NetworkPolicies.

use std::{net::SocketAddr, sync::Arc};

use futures::FutureExt;
use parking_lot::Mutex;

use crate::probes::sole_entry::Dial;

/// Port that the policies let the operator connect to.
const ALLOWED: u16 = 9090;
/// Port on which nothing listens.
const UNUSED: u16 = 1;

/// A network that enforces the policies, unless a test says something else; clones share the state.
#[derive(Clone, Debug, Default)]
pub struct FakeNetwork(Arc<Mutex<NetworkState>>);

#[derive(Debug, Default)]
struct NetworkState {
    open: bool,
    dialled: Vec<SocketAddr>,
}

impl FakeNetwork {
    /// Returns the way to open connections on it.
    pub fn dial(&self) -> Dial {
        let network = self.clone();
        Arc::new(move |address: SocketAddr| {
            let mut state = network.0.lock();
            state.dialled.push(address);
            let succeeds = address.port() == ALLOWED || state.open && address.port() != UNUSED;
            async move { succeeds }.boxed()
        })
    }

    /// Ignores the policies from now on, or enforces them again.
    pub fn ignores_policies(&self, ignores: bool) {
        self.0.lock().open = ignores;
    }

    /// Returns the addresses of the attempts since the last call.
    pub fn dialled(&self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.0.lock().dialled)
    }
}
