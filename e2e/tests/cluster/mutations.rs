//! Every field of the resource, mutated (F14), on a real API server: a sample of the mutations that the operator's own
//! tests make of a spec with every profile.

#[cfg(test)]
#[path = "../../../operator/core/src/testing/mutation.rs"]
mod mutation;
#[cfg(test)]
#[path = "../../../operator/core/src/testing/admission.rs"]
mod schema;

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use shortener_e2e::{
    Space, Stack, alike, await_alike, await_condition, stopped_with_every_profile,
};

use self::{
    mutation::{Mutation, mutations},
    schema::Admission,
};
use super::admission::{create, stack};

/// The sample is the same in each run.
const SEED: u64 = 17;
/// Number of mutations that are sent to the API server.
const SAMPLE: usize = 200;
/// Number of edits of a live stack that are compared with a new stack.
const COMPARED: usize = 10;
/// Number of mutations that become edits at most. Many edits cannot be compared, because the API server refuses a child.
const MOST_EDITS: usize = 60;

/// Fields that no edit of the sample changes: a volume never goes back to a smaller size, nor a collection to another
/// one, data keeps the version of its server, a running stack gets no backup to begin with and no cluster of another
/// operator, the operator has one class, pods would start, a paused stack has no children, and each of the stacks has a
/// host of its own.
const KEPT: [&str; 26] = [
    "/cache/external",
    "/database/cloudNativePG",
    "/database/external",
    "/database/managed/image",
    "/database/managed/storage",
    "/database/managed/storageClassName",
    "/database/restoreFrom",
    "/gateway/hosts",
    "/observability/backend/external",
    "/observability/backend/managed/storage",
    "/observability/backend/managed/storageClassName",
    "/operatorClass",
    "/paused",
    "/queue/external",
    "/queue/managed/image",
    "/queue/managed/storage",
    "/queue/managed/storageClassName",
    "/queue/rabbitmqCluster",
    "/stopped",
    "/vector/collection",
    "/vector/distance",
    "/vector/external",
    "/vector/managed/image",
    "/vector/managed/storage",
    "/vector/managed/storageClassName",
    "/vector/size",
];

#[tokio::test]
async fn the_api_server_admits_the_mutations_that_the_operators_own_tests_admit() -> Result<()> {
    Space::with("mutations", async |space| {
        let admission = Admission::of_the_definition();
        let base = stopped_with_every_profile(space);
        let sample = shuffled(&admission, &base);
        let (mut admitted, mut wrong) = (0, Vec::new());
        for mutation in sample.iter().take(SAMPLE) {
            let object = stack("acme", mutation.spec.clone());
            let refusal = refusal(create(space, &object, "Ignore").await)?;
            admitted += usize::from(refusal.is_none());
            let expected = admission.store(&mutation.spec);
            let expected = expected.and_then(|stored| admission.judge(&stored));
            if let Some(what) = disagreement(mutation, &expected, refusal.as_deref()) {
                wrong.push(format!("{}: {what}", title(mutation)));
            }
        }
        println!("of {SAMPLE} mutations {admitted} were admitted");
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        ensure!(
            (SAMPLE / 5..SAMPLE * 4 / 5).contains(&admitted),
            "{admitted} of {SAMPLE} were admitted, which proves little"
        );
        Ok(())
    })
    .await
}

/// Returns what is wrong about the answer to a mutation.
fn disagreement(
    mutation: &Mutation,
    expected: &Result<(), Vec<String>>,
    refusal: Option<&str>,
) -> Option<String> {
    match (expected, refusal) {
        (Ok(()), None) => None,
        (Ok(()), Some(message)) => Some(format!("is refused: {message}")),
        (Err(refusals), None) => Some(format!("is admitted, against {refusals:?}")),
        (Err(_), Some(message)) => {
            let mut fields = mutation.fields();
            let named = fields.any(|field| message.contains(field));
            (!named).then(|| format!("the refusal names no field: {message}"))
        }
    }
}

/// Returns the message of a refusal, or none for an accepted object.
///
/// # Errors
/// There was no answer, or one that says nothing of the object.
fn refusal<T>(answer: Result<T>) -> Result<Option<String>> {
    let Err(error) = answer else {
        return Ok(None);
    };
    let message = match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) if [400, 422].contains(&status.code) => {
            Some(status.message.clone())
        }
        _ => None,
    };
    message.map(Some).ok_or(error)
}

#[tokio::test]
async fn an_edit_gives_the_children_of_a_new_stack_and_its_reversal_the_earlier_ones() -> Result<()>
{
    Space::with("edits", async |space| {
        let admission = Admission::of_the_definition();
        let base = admission.store(&stopped_with_every_profile(space));
        let base = base.map_err(|refusals| anyhow!("the base is refused: {refusals:?}"))?;
        let origin = made(space, "new-base", &base).await?;
        let live = made(space, "acme", &base).await?;
        await_alike(&live, &origin).await?;
        let (mut drawn, mut compared) = (0, 0);
        for (case, spec) in edits(&admission, &base) {
            drawn += 1;
            let new = made(space, &format!("new-{drawn:02}"), &spec).await?;
            let spec = of_its_own(space, &live.name, &spec)?;
            let like_new = edited(&live, &spec, &new).await;
            compared += usize::from(like_new.with_context(|| case.clone())?);
            live.apply_undrained(&of_its_own(space, &live.name, &base)?)
                .await
                .with_context(|| format!("{case}: there is no way back"))?;
            let back = await_alike(&live, &origin).await;
            back.with_context(|| format!("{case}: going back"))?;
            if compared == COMPARED {
                break;
            }
        }
        println!("seed {SEED}: {compared} of {drawn} edits gave the children of a new stack");
        ensure!(
            compared == COMPARED,
            "seed {SEED}: only {compared} of {drawn} edits could be compared, and not {COMPARED}"
        );
        Ok(())
    })
    .await
}

/// Edits the live stack and waits until it is like the new one. Returns false if the API server refuses a child of both:
/// an earlier one remains then.
async fn edited(live: &Stack, spec: &Value, new: &Stack) -> Result<bool> {
    live.apply_undrained(spec).await?;
    let what = format!("stack {} has the children of {}", live.name, new.name);
    await_condition(&what, async || {
        // The operator has seen both: a stopped stack is never ready.
        for stack in [new, live] {
            stack.current("Ready", "False").await?;
        }
        let Err(difference) = alike(live, new).await else {
            return Ok(true);
        };
        for stack in [new, live] {
            if stack.current("Degraded", "True").await.is_err() {
                return Err(difference);
            }
        }
        Ok(false)
    })
    .await
}

/// Makes a stack whose host no other one has.
async fn made(space: &Space, name: &str, spec: &Value) -> Result<Stack> {
    let stack = space.stack(name);
    stack
        .apply_undrained(&of_its_own(space, name, spec)?)
        .await?;
    Ok(stack)
}

/// Returns a spec with a host that is part of the namespace's.
fn of_its_own(space: &Space, name: &str, spec: &Value) -> Result<Value> {
    let (host, own) = (space.host(), format!("{name}.{}", space.host()));
    Ok(serde_json::from_str(
        &spec.to_string().replace(&host, &own),
    )?)
}

/// Returns the mutations that become edits, as they are stored, with their titles.
fn edits(admission: &Admission, base: &Value) -> Vec<(String, Value)> {
    let mut seen = BTreeSet::from([base.to_string()]);
    let mut edits = Vec::new();
    for mutation in shuffled(admission, base) {
        let Ok(stored) = admission.store(&mutation.spec) else {
            continue;
        };
        let mut kept = KEPT.into_iter();
        let suits = kept.all(|path| stored.pointer(path) == base.pointer(path))
            && !empties_a_map(base, &stored);
        if suits && seen.insert(stored.to_string()) && admission.judge(&stored).is_ok() {
            edits.push((title(&mutation), stored));
        }
        if edits.len() == MOST_EDITS {
            break;
        }
    }
    edits
}

/// Returns whether a map of the base has lost its last entry. By server-side apply it becomes null, which the API server
/// refuses.
fn empties_a_map(base: &Value, stored: &Value) -> bool {
    let (Value::Object(base), Value::Object(stored)) = (base, stored) else {
        return false;
    };
    if stored.is_empty() {
        return !base.is_empty();
    }
    let mut both = base
        .iter()
        .filter_map(|(name, of_base)| Some((of_base, stored.get(name)?)));
    both.any(|(of_base, of_stored)| empties_a_map(of_base, of_stored))
}

fn shuffled(admission: &Admission, base: &Value) -> Vec<Mutation> {
    let mut all = mutations(&admission.spec, base, None);
    fastrand::Rng::with_seed(SEED).shuffle(&mut all);
    all
}

fn title(mutation: &Mutation) -> String {
    format!("spec.{}: {}", mutation.path.join("."), mutation.what)
}
