//! Tests of the script that starts the gateway, with a program in place of nginx. The tests on a cluster run it in the image.

#![expect(
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

const START: &str = include_str!("../core/src/plan/build/gateway/nginx/start.sh");
/// The rendered configuration, behind the head of its snapshot.
const CONFIG: &str = include_str!("../core/snapshots/nginx-standalone.snap");
const HEALTH: &str = include_str!("../core/snapshots/nginx-health.snap");
/// Name servers and domains, as the kubelet writes them.
const OF_CLUSTER: &str = "search links.svc.cluster.test svc.cluster.test cluster.test example.com\n\
                          nameserver 10.96.0.10\nnameserver fd00::a\noptions ndots:5\n";
/// Those of a node.
const OF_NODE: &str = "search example.com\nnameserver 192.0.2.1\n";

/// A folder that stands in for the file systems of a pod.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str, config: &str, resolver: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        for part in ["tmp", "etc/shortener", "bin"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let config = config.splitn(3, "---\n").last().unwrap();
        fs::write(folder.join("etc/shortener/nginx.conf"), config).unwrap();
        fs::write(folder.join("etc/resolv.conf"), resolver).unwrap();
        Self(folder)
    }

    /// Returns the configuration with which nginx starts. An old one refuses to follow the addresses of a name.
    fn started(&self, is_old: bool) -> String {
        let nginx = self.0.join("bin/nginx");
        let program = format!(
            "#!/bin/sh\nfor last; do case $last in *.conf) config=$last ;; esac; done\n\
             if {is_old} && grep -q '^ *server .* resolve ' \"$config\"; then exit 1; fi\n\
             if [ \"$1\" != -t ]; then cp \"$config\" '{}'; fi\n",
            self.0.join("started").display()
        );
        fs::write(&nginx, program).unwrap();
        fs::set_permissions(&nginx, fs::Permissions::from_mode(0o755)).unwrap();
        let inside = |path: &str| self.0.join(path).display().to_string();
        let script = START
            .replace("/etc/", &format!("{}/", inside("etc")))
            .replace("/tmp/nginx", &format!("{}/nginx", inside("tmp")))
            .replace("/tmp/pods", &format!("{}/pods", inside("tmp")));
        let path = format!("{}:{}", inside("bin"), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        let end = shell.args(["-c", &script]).env("PATH", path).status();
        assert!(end.unwrap().success());
        fs::read_to_string(self.0.join("started")).unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.0));
    }
}

/// Returns the directives that name servers, and those that resolve names.
fn servers(config: &str) -> Vec<&str> {
    let lines = config.lines().map(str::trim);
    let directives = ["server ", "resolver "];
    let named = |line: &&str| directives.iter().any(|name| line.starts_with(name));
    lines
        .filter(|line| named(line) && line.ends_with(';'))
        .collect()
}

#[test]
fn the_gateway_looks_for_the_pods_in_the_dns_of_the_cluster() {
    let machine = Machine::new("by-name", CONFIG, OF_CLUSTER);
    let config = machine.started(false);
    let pods =
        "server acme-app-pods.links.svc.cluster.test:3000 resolve max_fails=2 fail_timeout=10s;";
    let service = "server 10.96.0.42:3000 max_fails=0 backup;";
    assert_eq!(
        servers(&config),
        [
            "resolver 10.96.0.10 [fd00::a]  valid=2s;",
            pods,
            service,
            pods,
            service,
        ]
    );
}

#[test]
fn without_that_dns_or_with_an_older_nginx_the_gateway_asks_the_service() {
    for (name, resolver, is_old) in [
        ("old", OF_CLUSTER, true),
        ("node", OF_NODE, false),
        ("none", "", false),
    ] {
        let machine = Machine::new(name, CONFIG, resolver);
        let config = machine.started(is_old);
        let service = "server 10.96.0.42:3000 max_fails=0;";
        assert_eq!(servers(&config), [service, service], "{name}");
    }
}

#[test]
fn a_gateway_that_routes_nothing_looks_for_nothing() {
    let config = Machine::new("health", HEALTH, OF_CLUSTER).started(false);
    assert_eq!(servers(&config), [""; 0]);
}
