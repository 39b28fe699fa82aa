//! The reconcile of a stack that is only planned: it reads, compares and writes the plan to the status.

use kube::runtime::controller::Action;
use shortener_operator_core::{
    api::ShortenerStack,
    model::facts::Facts,
    plan::{self, Outcome, diff},
};
use tokio::time::timeout;

use super::{
    Error, READ_TIME, RESYNC, apply,
    context::{Scope, shortened},
    tell,
};
use crate::kubernetes::{children, dry_run};

/// Writes to the status what an apply of the stack would do.
///
/// # Errors
/// The spec conflicts with the cluster, a read failed, or the status could not be written.
pub(super) async fn plan(
    scope: &Scope,
    stack: &ShortenerStack,
    facts: Facts,
) -> Result<Action, Error> {
    let identity = facts.identity.clone();
    let in_json = |error| Error::Gather(kube::Error::SerdeError(error));
    let facts = plan::foresee(stack, facts);
    let planned = plan::plan(stack, facts, &scope.context.defaults)?;
    let wanted = diff::children(&planned.desired).map_err(in_json)?;
    let read = children::read(&scope.context.client, &identity, &wanted);
    let live = timeout(READ_TIME, read)
        .await
        .map_err(|_| Error::ReadDeadline)?
        .map_err(|error| Error::Gather(error.source))?;
    let mut changes = diff::diff(&planned, &live).map_err(in_json)?;
    let objects = diff::objects(&planned.desired).map_err(in_json)?;
    let asked = dry_run::confirm(
        &scope.context.client,
        &identity.namespace,
        objects,
        &mut changes,
    );
    match timeout(READ_TIME, asked).await {
        Ok(Ok(())) => {}
        // The plan holds as far as it is known, and the next one asks again.
        Ok(Err(error)) => {
            tracing::info!(%error, "the API server was not asked about every planned change")
        }
        Err(_) => return Err(Error::ReadDeadline),
    }
    let observed = apply::observe(scope, &identity);
    let outcome = Outcome::Planned(&planned.stack, &observed, &changes);
    tell(scope, stack, outcome).await?;
    Ok(Action::requeue(shortened(RESYNC)))
}
