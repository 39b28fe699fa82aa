//! Floods: loads that could starve a stack, and one of ordinary requests. The program `load` sends one from a pod, because
//! the ports of one machine do not carry thousands of slow clients to a node.

mod head;
mod tally;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

pub use self::{head::Head, tally::Tally};
use crate::harness::{Space, await_condition, output_of, restricted_container, restricted_pod};

/// The label of the pods that send floods.
pub const FLOOD_LABEL: (&str, &str) = ("app", "load");

/// The code of the link that [`Flood::KnownCode`] follows.
pub const FLOOD_CODE: &str = "followed-by-many";

/// The line that the program prints before its first request.
pub const FLOOD_BEGINS: &str = "the flood begins";

/// The largest number of clients of one pod. A process may have 1,024 open files where the node does not allow more.
const MOST_CLIENTS: usize = 1000;
/// The longest time of a flood.
pub const LONGEST_FLOOD: Duration = Duration::from_secs(660);

/// The size of a job in bytes: the largest that the app takes.
const JOB: usize = 64 * 1024;
/// The size of a path in bytes. With the rest of its line it is just below the gateway's limit of 8 KiB.
const PATH: usize = 8000;
/// The length at which the app cuts a path for the log. A character of two bytes is across it.
const CUT: usize = 256;
/// The part of a slow body that is sent at once, in bytes.
const FIRST_PART: usize = 2048;

/// A load from a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Redirects of a link that exists, [`FLOOD_CODE`]: as many ordinary requests as the other floods have others. It shows
    /// what this machine needs for a redirect beside so many requests.
    KnownCode,
    /// Requests with long paths, each of which has a letter of two bytes where the log cuts it.
    LongPaths,
    /// Clients that send their bodies drop by drop.
    SlowBodies,
    /// Clients that close their sending side with a request that has no answer yet.
    HalfClosed,
    /// Redirects of codes that do not exist.
    UnknownCodes,
    /// The largest jobs, from clients that wait for a second only.
    LargeJobs,
}

impl Flood {
    /// Those that could starve a stack.
    pub const HARMFUL: [Self; 5] = [
        Self::LongPaths,
        Self::SlowBodies,
        Self::HalfClosed,
        Self::UnknownCodes,
        Self::LargeJobs,
    ];

    /// Returns the name on the command line of the program, and the time from one request of a client to its next one.
    const fn row(self) -> (&'static str, Duration) {
        match self {
            Self::KnownCode => ("known-code", Duration::from_millis(30)),
            Self::LongPaths => ("long-paths", Duration::from_millis(50)),
            Self::SlowBodies => ("slow-bodies", Duration::from_secs(3)),
            Self::HalfClosed => ("half-closed", Duration::from_secs(1)),
            // 50 clients ask for 200,000 codes in two minutes.
            Self::UnknownCodes => ("unknown-codes", Duration::from_millis(30)),
            Self::LargeJobs => ("large-jobs", Duration::from_secs(1)),
        }
    }

    /// Returns the name on the command line of the program.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// Returns the time from one request of a client to its next one.
    pub const fn period(self) -> Duration {
        self.row().1
    }

    /// Returns the next request of a client, as it is sent. That of a slow body is not complete.
    pub fn request(self, host: &str) -> Vec<u8> {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let post = |body: &str| {
            format!(
                "POST /jobs HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
                 content-length: {JOB}\r\n\r\n{body}"
            )
        };
        let text = match self {
            Self::KnownCode => get(&format!("/{FLOOD_CODE}")),
            Self::LongPaths => get(&long_path()),
            Self::HalfClosed | Self::UnknownCodes => get(&format!("/{}", unknown_code())),
            Self::SlowBodies => post(&job()[..FIRST_PART]),
            Self::LargeJobs => post(&job()),
        };
        text.into_bytes()
    }

    /// Starts this flood in a pod that sends it to a port of a Service (`<service>:<port>`), and waits until it begins.
    pub async fn start(
        self,
        space: &Space,
        to: &str,
        clients: usize,
        time: Duration,
    ) -> Result<RunningFlood> {
        let command = json!([
            "/load",
            self.as_str(),
            to,
            space.host(),
            clients.to_string(),
            time.as_secs().to_string(),
        ]);
        // The flood must not take the processors from the stack.
        let limits = json!({"limits": {"cpu": "500m", "memory": "256Mi"}});
        let container = restricted_container(
            &space.settings.echo_image,
            json!({"command": command, "resources": limits}),
        );
        let (key, value) = FLOOD_LABEL;
        let (service, _) = address(to)?;
        let number = fastrand::u32(..);
        let name = format!("{}-{service}-{number:08x}", self.as_str());
        let pod = restricted_pod(&name, &json!({key: value}), container, json!([]))?;
        let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
        pods.create(&PostParams::default(), &pod).await?;
        await_condition(&format!("pod {name} sends its flood"), async || {
            let log = pods.logs(&name, &Default::default()).await?;
            ensure!(log.contains(FLOOD_BEGINS), "its log is: {log}");
            Ok(())
        })
        .await?;
        Ok(RunningFlood {
            space: space.clone(),
            pod: name,
        })
    }
}

/// A flood that a pod sends.
pub struct RunningFlood {
    space: Space,
    pod: String,
}

impl RunningFlood {
    /// Waits for the end of the flood, and returns what became of its requests.
    pub async fn ended(self) -> Result<Tally> {
        let log = output_of(&self.space, &self.pod).await?;
        let last = log.lines().last();
        let last = last.with_context(|| format!("pod {} printed nothing", self.pod))?;
        serde_json::from_str(last).with_context(|| format!("pod {} printed: {log}", self.pod))
    }

    /// Ends the flood before its time. What became of its requests is then not known.
    pub async fn stop(self) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.space.client.clone(), &self.space.name);
        let at_once = DeleteParams::background().grace_period(1);
        pods.delete(&self.pod, &at_once).await?;
        await_condition(&format!("pod {} is gone", self.pod), async || {
            let pod = pods.get_opt(&self.pod).await?;
            ensure!(pod.is_none(), "it still exists");
            Ok(())
        })
        .await
    }
}

/// The arguments of the program `load`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloodArguments {
    pub flood: Flood,
    /// The Service and its port.
    pub to: String,
    /// The host that the requests name.
    pub host: String,
    pub clients: usize,
    /// The time after which the flood ends.
    pub time: Duration,
}

impl FloodArguments {
    /// Reads the arguments: `<flood> <service>:<port> <host> <clients> <seconds>`.
    pub fn read(arguments: [&str; 5]) -> Result<Self> {
        let [flood, to, host, clients, seconds] = arguments;
        let mut all = Flood::HARMFUL.into_iter().chain([Flood::KnownCode]);
        let named = all.find(|known| known.as_str() == flood);
        let flood = named.with_context(|| format!("there is no flood {flood}"))?;
        address(to)?;
        let clients: usize = clients
            .parse()
            .with_context(|| format!("the number of clients is {clients}"))?;
        ensure!(
            (1..=MOST_CLIENTS).contains(&clients),
            "{clients} clients: a pod sends the requests of 1 to {MOST_CLIENTS}"
        );
        let seconds = seconds
            .parse()
            .with_context(|| format!("the number of seconds is {seconds}"))?;
        let time = Duration::from_secs(seconds);
        ensure!(
            time <= LONGEST_FLOOD,
            "{seconds} s: a flood ends after {} s at most",
            LONGEST_FLOOD.as_secs()
        );
        Ok(Self {
            flood,
            to: to.to_owned(),
            host: host.to_owned(),
            clients,
            time,
        })
    }
}

/// Returns a Service of the pod's own namespace and its port. Nothing else may be flooded.
fn address(to: &str) -> Result<(&str, u16)> {
    let Some((service, port)) = to.split_once(':') else {
        bail!("{to} has no port");
    };
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    ensure!(
        service.starts_with(|first: char| first.is_ascii_lowercase())
            && service.bytes().all(is_label),
        "{service} is not the name of a Service of this namespace"
    );
    let port = port
        .parse()
        .with_context(|| format!("the port of {to} is not a number"))?;
    Ok((service, port))
}

fn long_path() -> String {
    let mut path = format!("/{}é", "a".repeat(CUT - 2));
    path.push_str(&"b".repeat(PATH - path.len()));
    path
}

fn unknown_code() -> String {
    std::iter::repeat_with(fastrand::alphanumeric)
        .take(12)
        .collect()
}

fn job() -> String {
    let (before, after) = (r#"{"task":"email","id":1,"text":""#, r#""}"#);
    let text = "x".repeat(JOB - before.len() - after.len());
    format!("{before}{text}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(flood: Flood) -> String {
        String::from_utf8(flood.request("go.test")).unwrap()
    }

    #[test]
    fn a_long_path_is_not_cut_between_two_characters() {
        let path = long_path();
        assert_eq!(path.len(), PATH);
        assert!(path.is_char_boundary(CUT - 1) && !path.is_char_boundary(CUT));
        let request = text(Flood::LongPaths);
        let line = request.lines().next().unwrap();
        assert!(line.len() < 8 * 1024, "{} bytes", line.len());
    }

    #[test]
    fn a_job_is_an_object_of_the_announced_size_and_a_slow_body_is_a_part_of_it() {
        assert_eq!(job().len(), JOB);
        let job: serde_json::Value = serde_json::from_str(&job()).unwrap();
        assert_eq!(job["task"], "email");
        for (flood, size) in [(Flood::LargeJobs, JOB), (Flood::SlowBodies, FIRST_PART)] {
            let request = text(flood);
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with("content-length: 65536"), "{head}");
            assert_eq!(body.len(), size);
        }
    }

    #[test]
    fn each_request_is_for_another_code_and_names_the_host() {
        let (first, second) = (text(Flood::UnknownCodes), text(Flood::UnknownCodes));
        assert_ne!(first, second);
        assert!(first.starts_with("GET /") && first.contains("\r\nhost: go.test\r\n"));
    }

    #[test]
    fn two_minutes_of_fifty_clients_are_200_000_codes() {
        let each = Duration::from_secs(120).as_millis() / Flood::UnknownCodes.period().as_millis();
        assert_eq!(50 * each, 200_000);
    }

    #[test]
    fn only_a_bounded_flood_at_a_service_of_the_namespace_is_sent() {
        let right = ["half-closed", "acme-app:3000", "go.test", "1000", "660"];
        let read = FloodArguments::read(right).unwrap();
        assert_eq!((read.flood, read.clients), (Flood::HalfClosed, 1000));
        for (place, wrong) in [
            (0, "everything"),
            (1, "example.com:80"),
            (1, "acme-app"),
            (1, "acme-app:http"),
            (1, "10.0.0.1:80"),
            (1, ":80"),
            (3, "1001"),
            (3, "0"),
            (3, "many"),
            (4, "661"),
            (4, "-1"),
        ] {
            let mut arguments = right;
            arguments[place] = wrong;
            assert!(FloodArguments::read(arguments).is_err(), "{arguments:?}");
        }
    }
}
