//! Three replicas of the operator as processes beside the cluster. They have a class and a lease of their own, so the
//! installed operator goes on undisturbed.
//!
//! Their settings are equal but for the default image of the gateway. So the Deployment of a stack's gateway tells which
//! of them wrote it last, and its generation how often it was written. The stack is stopped, so no pod needs the image.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease};
use kube::{Api, api::DeleteParams};
use shortener_e2e::{Operator, OperatorProcess, OperatorProgram, Space, await_condition};

/// Class of the stacks of these replicas.
pub const CLASS: &str = "e2e-replicas";
/// The time for which the lease protects its holder. It is shorter than in production, so that the test is short.
pub const TERM: Duration = Duration::from_secs(9);

const LEASE: &str = "e2e-replicas";
const NAMES: [&str; 3] = ["replica-1", "replica-2", "replica-3"];
const IMAGE: &str = "localhost/shortenerstack/none";

/// The replicas. They are killed when this is dropped.
pub struct Replicas {
    programs: BTreeMap<&'static str, OperatorProgram>,
    running: BTreeMap<&'static str, OperatorProcess>,
    leases: Api<Lease>,
    gateways: Api<Deployment>,
}

impl Replicas {
    /// Starts them for the stacks of a namespace, which also has the lease.
    pub async fn start(space: &Space) -> Result<Self> {
        let operator = Operator::find(&space.client).await?;
        let program = OperatorProgram::like(&operator, &[space]).await?;
        let seconds = TERM.as_secs().to_string();
        let mut replicas = Self {
            programs: BTreeMap::new(),
            running: BTreeMap::new(),
            leases: Api::namespaced(space.client.clone(), &space.name),
            gateways: Api::namespaced(space.client.clone(), &space.name),
        };
        for name in NAMES {
            let image = format!("{IMAGE}:{name}");
            let settings = [
                ("POD_NAMESPACE", space.name.as_str()),
                ("LEASE_NAME", LEASE),
                ("LEASE_DURATION_SECONDS", seconds.as_str()),
                ("OPERATOR_CLASS", CLASS),
                ("GATEWAY_IMAGE", image.as_str()),
            ];
            let replica = program.replica(name, &settings);
            replicas.running.insert(name, replica.start()?);
            replicas.programs.insert(name, replica);
        }
        Ok(replicas)
    }

    /// Sends a signal to a replica.
    pub async fn signal(&self, name: &str, signal: &str) -> Result<()> {
        let replica = self.running.get(name);
        let replica = replica.with_context(|| format!("no replica {name} runs"))?;
        replica.signal(signal).await
    }

    /// Waits until a replica leads and has written the gateway, but not the one of this name.
    pub async fn leader_but(&self, other: &str) -> Result<String> {
        let what = "a replica leads and has written the gateway";
        await_condition(what, async || {
            let holder = self.holder().await?;
            ensure!(holder != other, "{other} holds the lease");
            let (writer, _) = self.written().await?;
            ensure!(writer == holder, "{writer} wrote it, {holder} leads");
            Ok(holder)
        })
        .await
    }

    /// Checks that a replica leads, and that it wrote the gateway's Deployment last, as this generation.
    pub async fn led_by(&self, leader: &str, generation: i64) -> Result<()> {
        let holder = self.holder().await?;
        ensure!(holder == leader, "{holder} holds the lease");
        let written = self.written().await?;
        let expected = (leader.to_owned(), generation);
        ensure!(written == expected, "{written:?}, expected {expected:?}");
        Ok(())
    }

    /// Returns the replica that wrote the gateway's Deployment last, and the generation that it wrote.
    pub async fn written(&self) -> Result<(String, i64)> {
        let gateway = self.gateways.get("acme-gateway").await?;
        let generation = gateway.metadata.generation;
        let pod = gateway.spec.and_then(|spec| spec.template.spec);
        let image = pod.and_then(|pod| pod.containers.into_iter().next()?.image);
        let image = image.context("the gateway has no image")?;
        let (_, writer) = image.rsplit_once(':').context("its image has no tag")?;
        Ok((
            writer.to_owned(),
            generation.context("the gateway has no generation")?,
        ))
    }

    pub async fn delete_lease(&self) -> Result<()> {
        self.leases.delete(LEASE, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Returns how often a replica became the leader.
    pub fn terms(&self) -> Result<usize> {
        let programs = self.programs.values();
        let terms = programs.map(|program| program.lines_with(r#""message":"leading""#));
        terms.sum()
    }

    /// Checks the log of a replica for a text.
    pub fn said(&self, name: &str, text: &str) -> Result<()> {
        let program = self.programs.get(name);
        let program = program.with_context(|| format!("there is no replica {name}"))?;
        ensure!(program.lines_with(text)? > 0, "{name} did not say: {text}");
        Ok(())
    }

    /// Fails if a replica has ended.
    pub fn check(&mut self) -> Result<()> {
        self.running
            .values_mut()
            .try_for_each(OperatorProcess::check)
    }

    async fn holder(&self) -> Result<String> {
        let spec = self.leases.get(LEASE).await?.spec;
        let holder = spec.and_then(|spec| spec.holder_identity);
        holder.context("the lease has no holder")
    }
}
