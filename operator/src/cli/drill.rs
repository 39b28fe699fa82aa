//! The command `drill`: creates a drill of a stack, follows its status, and prints what users saw. The operator gives the
//! store back, so the end of this command changes nothing.

use std::{io::Write, time::Duration};

use clap::{Args, ValueEnum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt, api::PostParams};
use shortener_operator_core::api::{
    DrillPhase, DrillPromise, DrillVerdict, DrilledStackRef, DrilledStore, JobReport,
    LONGEST_DRILL, RequestReport, ShortenerDrill, ShortenerDrillSpec, ShortenerDrillStatus,
};
use tokio::time::{Instant, sleep};

use super::cluster::{ConnectError, Stack};
use crate::kubernetes::refusal::sentence;

/// Time between two looks at the drill.
const LOOK: Duration = Duration::from_secs(1);
/// Number of looks after which a drill that no operator has seen is given up.
const UNSEEN: u32 = 90;
/// Time after the first of several failed looks, after which the drill is given up. A drill lasts for minutes, and an API
/// server may restart meanwhile. It is no number of looks, because each may wait for its answer for as long.
const AWAY: Duration = Duration::from_secs(60);

/// Arguments of `drill`.
#[derive(Debug, Args)]
pub struct DrillArguments {
    /// Stack of the drill
    #[command(flatten)]
    pub stack: Stack,
    /// Store that is taken away
    #[arg(long, value_enum, ignore_case = true)]
    pub store: StoreName,
    /// Seconds for which it is away
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(i32).range(10..=i64::from(LONGEST_DRILL)))]
    pub seconds: i32,
}

/// A store that a drill can take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreName {
    Cache,
    Queue,
    Database,
    Vector,
    Telemetry,
}

/// An error of `drill`.
#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    /// There is no connection to the cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The drill could not be created.
    #[error(
        "cannot create a ShortenerDrill: {}; check that the namespace exists and that you may create shortenerdrills (ClusterRole shortener-operator-drill)",
        sentence(.0)
    )]
    Create(#[source] kube::Error),
    /// The drill could not be read.
    #[error(
        "cannot read ShortenerDrill {name}: {}; the operator gives the store back all the same",
        sentence(.source)
    )]
    Read {
        /// Name of the drill.
        name: String,
        source: kube::Error,
    },
    /// Somebody deleted the drill.
    #[error("ShortenerDrill {0} was deleted, so the operator gives the store back now")]
    Deleted(String),
    /// No operator reconciles the stack.
    #[error(
        "no operator has seen ShortenerDrill {0} in time: check that one runs, and delete the drill"
    )]
    Unseen(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Print(#[from] std::io::Error),
}

impl From<StoreName> for DrilledStore {
    fn from(name: StoreName) -> Self {
        match name {
            StoreName::Cache => Self::Cache,
            StoreName::Queue => Self::Queue,
            StoreName::Database => Self::Database,
            StoreName::Vector => Self::Vector,
            StoreName::Telemetry => Self::Telemetry,
        }
    }
}

/// Creates a drill and follows it. Returns 0 if its promises were held, 2 if they were broken, and 3 if nothing is known or
/// the drill was refused; 1 stands for an error.
///
/// # Errors
/// [`DrillError`]
pub async fn run(arguments: DrillArguments, out: &mut impl Write) -> Result<u8, DrillError> {
    let DrillArguments {
        stack,
        store,
        seconds,
    } = arguments;
    let (client, namespace) = stack.location.connect().await?;
    let drills: Api<ShortenerDrill> = Api::namespaced(client, &namespace);
    let drill = drill(&stack.name, store.into(), seconds);
    let created = drills.create(&PostParams::default(), &drill).await;
    let name = created.map_err(DrillError::Create)?.name_any();
    writeln!(
        out,
        "ShortenerDrill {namespace}/{name} was created. Ctrl-C ends this command and not the drill: the operator gives the store \
         back at the end, or when you delete the drill."
    )?;
    let status = follow(&drills, &name, out).await?;
    write!(out, "{}", report(&status))?;
    Ok(exit_code(&status))
}

/// Returns the drill to create. The API server completes its name.
fn drill(stack: &str, store: DrilledStore, seconds: i32) -> ShortenerDrill {
    let stack_ref = DrilledStackRef {
        name: stack.to_owned(),
    };
    let spec = ShortenerDrillSpec {
        stack_ref,
        store,
        seconds,
    };
    let mut drill = ShortenerDrill::new("", spec);
    drill.metadata.name = None;
    drill.metadata.generate_name = Some(format!("{stack}-"));
    drill
}

/// Waits until a drill is over, and prints each new phase.
async fn follow(
    drills: &Api<ShortenerDrill>,
    name: &str,
    out: &mut impl Write,
) -> Result<ShortenerDrillStatus, DrillError> {
    let (mut known, mut looks) = (None, 0);
    let mut away: Option<Instant> = None;
    loop {
        let read = match drills.get_opt(name).await {
            Ok(read) => read,
            Err(source) => {
                let since = *away.get_or_insert_with(Instant::now);
                if is_refused(&source) || since.elapsed() >= AWAY {
                    let name = name.to_owned();
                    return Err(DrillError::Read { name, source });
                }
                sleep(LOOK).await;
                continue;
            }
        };
        away = None;
        let drill = read.ok_or_else(|| DrillError::Deleted(name.to_owned()))?;
        let status = drill.status.unwrap_or_default();
        if known != status.phase {
            known = status.phase;
            writeln!(out, "{}", progress(&status))?;
        }
        match status.phase {
            Some(DrillPhase::Complete | DrillPhase::Refused) => return Ok(status),
            None if looks >= UNSEEN => return Err(DrillError::Unseen(name.to_owned())),
            Some(DrillPhase::Active | DrillPhase::Recovering) | None => {}
        }
        looks += 1;
        sleep(LOOK).await;
    }
}

/// Returns true for an answer that the next look gets too.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400..429))
}

/// Returns a line about the phase of a drill.
fn progress(status: &ShortenerDrillStatus) -> String {
    let message = status
        .conditions
        .first()
        .map(|found| found.message.as_str());
    let message = message.unwrap_or("the operator has not seen the drill");
    match (status.phase, &status.end_time) {
        (Some(DrillPhase::Active), Some(Time(end))) => format!("Active until {end:.0}: {message}"),
        (Some(phase), _) => format!("{phase:?}: {message}"),
        (None, _) => message.to_owned(),
    }
}

/// Returns what users saw, as a table.
fn report(status: &ShortenerDrillStatus) -> String {
    let mut text = String::new();
    if !status.requests.is_empty() {
        text.push_str(&format!(
            "\n{:<16}{:>6}{:>8}  {:<12}{:<6}{:>12}{:>12}  ANSWERS\n",
            "REQUEST", "SENT", "SERVED", "PROMISE", "KEPT", "LONGEST GAP", "RECOVERY"
        ));
    }
    status
        .requests
        .iter()
        .for_each(|request| text.push_str(&line(request)));
    if let Some(jobs) = status.jobs {
        let JobReport {
            accepted,
            done,
            lost,
            repeated,
            unknown,
        } = jobs;
        text.push_str(&format!(
            "\njobs: {accepted} accepted, {done} done, {lost} lost, {repeated} started more than once, {unknown} of which nothing is known\n"
        ));
    }
    if let Some(verdict) = status.verdict {
        text.push_str(&format!("verdict: {verdict:?}\n"));
    }
    text
}

/// Returns the line of one kind of request.
fn line(report: &RequestReport) -> String {
    let promise = match report.promise {
        DrillPromise::Served => "served",
        DrillPromise::Unavailable => "503",
    };
    let recovery = report
        .recovery_milliseconds
        .map_or("never".to_owned(), seconds);
    let answers = report
        .answers
        .iter()
        .map(|(answer, count)| format!("{answer}: {count}"));
    format!(
        "{:<16}{:>6}{:>8}  {:<12}{:<6}{:>12}{:>12}  {}\n",
        format!("{:?}", report.request),
        report.sent,
        report.served,
        promise,
        if report.kept { "yes" } else { "no" },
        seconds(report.longest_gap_milliseconds),
        recovery,
        answers.collect::<Vec<_>>().join(", "),
    )
}

/// Returns a time in seconds, with one digit behind the point.
fn seconds(milliseconds: i64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

fn exit_code(status: &ShortenerDrillStatus) -> u8 {
    match status.verdict {
        Some(DrillVerdict::Held) => 0,
        Some(DrillVerdict::Broken) => 2,
        Some(DrillVerdict::Inconclusive) | None => 3,
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::testing::api_server::{FakeApiServer, Fault};

    fn status(changes: serde_json::Value) -> ShortenerDrillStatus {
        serde_json::from_value(changes).unwrap()
    }

    #[test]
    fn the_report_is_a_table_of_what_users_saw() {
        let status = status(json!({
            "phase": "Complete", "verdict": "Held",
            "requests": [
                {
                    "request": "CachedRedirect", "promise": "Served", "kept": true, "sent": 71, "served": 71,
                    "answers": {"302": 71}, "longestGapMilliseconds": 0, "recoveryMilliseconds": 0,
                },
                {
                    "request": "Create", "promise": "Unavailable", "kept": true, "sent": 36, "served": 5,
                    "answers": {"201": 5, "503": 31}, "longestGapMilliseconds": 62_040,
                },
            ],
            "jobs": {"accepted": 36, "done": 36, "lost": 0, "repeated": 0, "unknown": 0},
        }));
        let expected = "
REQUEST           SENT  SERVED  PROMISE     KEPT   LONGEST GAP    RECOVERY  ANSWERS
CachedRedirect      71      71  served      yes          0.0 s       0.0 s  302: 71
Create              36       5  503         yes         62.0 s       never  201: 5, 503: 31

jobs: 36 accepted, 36 done, 0 lost, 0 started more than once, 0 of which nothing is known
verdict: Held
";
        assert_eq!(report(&status), expected);
    }

    #[test]
    fn each_verdict_has_an_exit_code_and_a_refusal_names_the_remedy() {
        for (verdict, code) in [("Held", 0), ("Broken", 2), ("Inconclusive", 3)] {
            assert_eq!(exit_code(&status(json!({"verdict": verdict}))), code);
        }
        let refused = status(json!({"phase": "Refused", "conditions": [{
            "type": "Complete", "status": "True", "reason": "DrillsNotAllowed",
            "message": "set drills.enabled", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}));
        assert_eq!(progress(&refused), "Refused: set drills.enabled");
        assert_eq!((exit_code(&refused), report(&refused).as_str()), (3, ""));
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_away_for_a_moment_does_not_end_the_command() {
        let server = FakeApiServer::default();
        let drill: ShortenerDrill = serde_json::from_value(json!({
            "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerDrill",
            "metadata": {"name": "mine", "namespace": "links"},
            "spec": {"stackRef": {"name": "acme"}, "store": "Cache", "seconds": 60},
            "status": {"phase": "Complete", "verdict": "Held"},
        }))
        .unwrap();
        server.create(&drill);
        let drills: Api<ShortenerDrill> = Api::namespaced(server.client(), "links");
        let followed = async |fault: Fault| {
            server.fail_all(Some(fault));
            let back = async {
                sleep(LOOK * 10).await;
                server.fail_all(None);
            };
            let mut out = Vec::new();
            let ((), followed) = tokio::join!(back, follow(&drills, "mine", &mut out));
            followed.map(|status| exit_code(&status))
        };
        assert_eq!(followed(Fault::LoseRequest).await.unwrap(), 0);
        assert_eq!(followed(Fault::Refuse(503)).await.unwrap(), 0);
        let refused = followed(Fault::Refuse(403)).await.unwrap_err();
        assert!(refused.to_string().contains("cannot read"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_is_slow_to_fail_is_given_up_as_soon_as_a_quick_one() {
        let silent = service_fn(|_: Request<Body>| async {
            sleep(LOOK * 25).await;
            Err::<Response<Body>, _>(std::io::Error::other("no answer"))
        });
        let drills: Api<ShortenerDrill> = Api::namespaced(Client::new(silent, "links"), "links");
        let (mut out, started) = (Vec::new(), Instant::now());
        let followed = follow(&drills, "mine", &mut out).await;
        assert!(
            matches!(followed, Err(DrillError::Read { .. })),
            "{followed:?}"
        );
        assert!(started.elapsed() < AWAY * 2, "{:?}", started.elapsed());
    }

    #[test]
    fn a_drill_gets_its_name_from_the_api_server() {
        let drill = drill("demo", DrilledStore::Queue, 30);
        assert_eq!(drill.metadata.name, None);
        assert_eq!(drill.metadata.generate_name.as_deref(), Some("demo-"));
        assert_eq!(
            (drill.spec.store, drill.spec.seconds),
            (DrilledStore::Queue, 30)
        );
    }
}
