//! Drills on a real stack: a store is away until its end, also when the operator's pod is killed meanwhile, and the report says
//! what users saw.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use shortener_e2e::{
    Operator, Provider, Space, Stack, await_condition, await_within, merge, small,
};
use shortener_operator_core::{
    api::{DrillPhase, DrillRequest, DrillVerdict, ShortenerDrill, ShortenerDrillStatus},
    model::drill::DRILL,
};

use crate::undisturbed;

/// Longest time from the creation of a drill of half a minute to its report: the operator waits for five minutes until every
/// request is served again.
const REPORT_LIMIT: Duration = Duration::from_secs(360);

/// The drills of a namespace.
struct Drills {
    api: Api<ShortenerDrill>,
    servers: Api<StatefulSet>,
}

impl Drills {
    fn of(space: &Space) -> Self {
        Self {
            api: Api::namespaced(space.client.clone(), &space.name),
            servers: Api::namespaced(space.client.clone(), &space.name),
        }
    }

    async fn create(&self, name: &str, store: &str, seconds: i32) -> Result<()> {
        let spec = json!({"stackRef": {"name": "acme"}, "store": store, "seconds": seconds});
        let drill = ShortenerDrill::new(name, serde_json::from_value(spec)?);
        self.api.create(&PostParams::default(), &drill).await?;
        Ok(())
    }

    async fn status(&self, name: &str) -> Result<ShortenerDrillStatus> {
        Ok(self.api.get(name).await?.status.unwrap_or_default())
    }

    async fn until_phase(&self, name: &str, phase: DrillPhase) -> Result<ShortenerDrillStatus> {
        await_within(
            REPORT_LIMIT,
            &format!("drill {name} is {phase:?}"),
            async || {
                let status = self.status(name).await?;
                ensure!(status.phase == Some(phase), "{status:?}");
                Ok(status)
            },
        )
        .await
        .map(|(status, _)| status)
    }

    /// Waits until the pods of a store are gone, or back.
    async fn until_away(&self, server: &str, away: bool) -> Result<()> {
        let name = format!("acme-{server}");
        await_condition(&format!("{name} is away: {away}"), async || {
            let live = self.servers.get(&name).await?;
            let status = live.status.clone().unwrap_or_default();
            ensure!(
                live.annotations().contains_key(DRILL) == away,
                "{:?}",
                live.metadata
            );
            let ready = status.ready_replicas.unwrap_or_default();
            ensure!(
                (status.replicas == 0) == away && (ready == 1) != away,
                "{status:?}"
            );
            Ok(())
        })
        .await
    }
}

async fn serve(space: &Space, changes: Value) -> Result<(Stack, Drills)> {
    let mut spec = json!({
        "profiles": ["caching", "queue"],
        "drills": {"enabled": true},
        "gateway": {"endToEndProbe": {"intervalSeconds": 30}},
        "queue": {"publicTasks": ["end-to-end"]},
    });
    merge(&mut spec, changes);
    let (stack, _) = space.serve(Provider::Standalone, spec).await?;
    Ok((stack, Drills::of(space)))
}

/// Creates a drill as soon as the stack admits one, and returns its report.
async fn report(drills: &Drills, store: &str, server: &str) -> Result<ShortenerDrillStatus> {
    let name = begin(drills, store).await?;
    drills.until_away(server, true).await?;
    let status = drills.until_phase(&name, DrillPhase::Complete).await?;
    drills.until_away(server, false).await?;
    Ok(status)
}

/// Creates drills until one is admitted: the stack may not be settled yet after the one before.
async fn begin(drills: &Drills, store: &str) -> Result<String> {
    let mut attempt = 0;
    await_within(
        REPORT_LIMIT,
        &format!("a drill of {store} begins"),
        async || {
            attempt += 1;
            let name = format!("{}-{attempt}", store.to_lowercase());
            drills.create(&name, store, 30).await?;
            let decided = await_condition(&format!("drill {name} is decided"), async || {
                let status = drills.status(&name).await?;
                ensure!(status.phase.is_some(), "{status:?}");
                Ok(status)
            })
            .await?;
            ensure!(decided.phase == Some(DrillPhase::Active), "{decided:?}");
            Ok(name)
        },
    )
    .await
    .map(|(name, _)| name)
}

#[tokio::test]
async fn a_drill_of_each_store_costs_what_the_documentation_says() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("drills", async |space| {
        let profiles = json!({"profiles": ["caching", "queue", "vector"]});
        let (_stack, drills) = serve(space, profiles).await?;
        for (store, server, refused) in [
            ("Cache", "cache", &[][..]),
            ("Vector", "qdrant", &[]),
            ("Queue", "rabbitmq", &[DrillRequest::Job]),
            (
                "Database",
                "postgres",
                &[DrillRequest::UncachedCode, DrillRequest::Create],
            ),
        ] {
            let status = report(&drills, store, server).await?;
            ensure!(
                status.verdict == Some(DrillVerdict::Held),
                "{store}: {status:#?}"
            );
            for report in &status.requests {
                let was_refused = report.answers.contains_key("503");
                ensure!(
                    was_refused == refused.contains(&report.request),
                    "{store}: {report:?}"
                );
            }
            let jobs = status.jobs.context("no jobs were sent")?;
            ensure!(
                jobs.lost == 0 && jobs.done == jobs.accepted,
                "{store}: {jobs:?}"
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_drill_lets_a_cluster_hibernate_and_wakes_it() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("drill-cluster", async |space| {
        let cluster = json!({"storage": "256Mi", "template": {"resources": small()}});
        let database = json!({"managed": null, "cloudNativePG": cluster});
        let (stack, drills) = serve(space, json!({"database": database})).await?;
        stack
            .until_reason("DatabaseReady", "True", "ClusterReady")
            .await?;
        let name = begin(&drills, "Database").await?;
        let status = drills.until_phase(&name, DrillPhase::Complete).await?;
        ensure!(status.verdict == Some(DrillVerdict::Held), "{status:#?}");
        let creates = status.requests.iter();
        let mut creates = creates.filter(|report| report.request == DrillRequest::Create);
        let refused = creates.any(|report| report.answers.contains_key("503"));
        ensure!(refused, "no new link was refused: {status:#?}");
        stack.ready().await
    })
    .await
}

#[tokio::test]
async fn a_drill_ends_although_it_is_deleted_or_the_operator_is_killed() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("drill-ends", async |space| {
        let (_stack, drills) = serve(space, json!({})).await?;
        let name = begin(&drills, "Cache").await?;
        drills.until_away("cache", true).await?;
        let deletion = DeleteParams::default();
        drills.api.delete(&name, &deletion).await?;
        drills.until_away("cache", false).await?;

        let name = begin(&drills, "Cache").await?;
        drills.until_away("cache", true).await?;
        let operator = Operator::find(&space.client).await?;
        let leader = operator.leader().await?;
        let at_once = DeleteParams::default().grace_period(0);
        operator.pods.delete(&leader, &at_once).await?;
        drills.until_away("cache", false).await?;
        let status = drills.until_phase(&name, DrillPhase::Complete).await?;
        ensure!(status.unobserved_seconds > 0, "{status:#?}");
        operator.settled(1).await
    })
    .await
}
