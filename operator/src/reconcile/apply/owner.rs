//! The owner of the children, for which the API server is asked before one of them is created.
//!
//! The watch may have lost the deletion of the stack. The garbage collector would then take each new child at once, which
//! wakes the stack again, and a Secret, which is created without an owner, would stay.

use std::time::Duration;

use kube::Api;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{desired::Desired, metadata::StackIdentity},
};
use tokio::time::timeout;

use super::group::Group;
use crate::{kubernetes::refusal::is_absent, reconcile::context::Scope};

/// Time for the answer. It leaves the step most of its time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns true when a child may have to be created, and the stack is gone or its deletion has begun. It is gone with its
/// resource definition, too, without which the garbage collector would never find out that the owner of a new child does
/// not exist. The watch lists every stack once the definition is back.
///
/// A stack that cannot be read counts as one that is there: the watch still shows it, and one refused read must not hold
/// back every component. If the API server is away, the writes fail and say so.
pub(super) async fn is_gone(scope: &Scope, identity: &StackIdentity, desired: &Desired) -> bool {
    if !creates(scope, identity, desired) {
        return false;
    }
    let client = scope.context.client.clone();
    let stacks: Api<ShortenerStack> = Api::namespaced(client, &identity.namespace);
    match timeout(PATIENCE, stacks.get_metadata_opt(&identity.name)).await {
        Ok(Ok(found)) => found.is_none_or(|stack| !identity.is_live(&stack.metadata)),
        Ok(Err(kube::Error::Api(status))) => is_absent(&status),
        Ok(Err(_)) | Err(_) => false,
    }
}

fn creates(scope: &Scope, identity: &StackIdentity, desired: &Desired) -> bool {
    // Each field by name, so that no further kind is forgotten.
    let Desired {
        children,
        database,
        broker,
        gateway,
        monitoring,
        discarded: _,
        released: _,
        prunable: _,
        spared: _,
        held: _,
    } = desired;
    children.lacks_one(scope, identity)
        || lacks_one(database.as_ref(), scope, identity)
        || lacks_one(broker.as_ref(), scope, identity)
        || lacks_one(gateway.as_ref(), scope, identity)
        || lacks_one(monitoring.as_ref(), scope, identity)
}

fn lacks_one(group: Option<&impl Group>, scope: &Scope, identity: &StackIdentity) -> bool {
    group.is_some_and(|objects| objects.lacks_one(scope, identity))
}
