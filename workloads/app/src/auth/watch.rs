//! The folders with the keys, as the kubelet mounts a Secret: a link `..data` to a folder with a file for each entry,
//! which moves when the Secret changes. A change takes effect without a restart.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

use super::keys::{ApiKeys, Entries};
use crate::metrics::AuthMetrics;

/// The time between two looks at the folders.
const PERIOD: Duration = Duration::from_secs(1);
/// The entry with the secrets of a proxy. No other one counts, so that no key of a client can be one.
const PROXY_ENTRY: &str = "secret";
/// The link that the kubelet moves.
const DATA: &str = "..data";

/// A task that follows the folders. Its reads are short and never leave memory, because the kubelet keeps Secrets in a
/// tmpfs.
pub struct Watcher {
    folders: Vec<PathBuf>,
    /// The target of each folder's link when it was read.
    versions: Vec<Option<PathBuf>>,
    keys: watch::Sender<Arc<ApiKeys>>,
    /// The error of the last read.
    error: Option<String>,
    holders: Holders,
}

/// Those who have the keys.
pub enum Holders {
    Clients(AuthMetrics),
    /// The proxy that signs people in.
    Proxy,
}

impl Watcher {
    /// Reads the folders. Of two with the same client, the first one counts.
    pub fn start(folders: Vec<PathBuf>, holders: Holders) -> (Self, watch::Receiver<Arc<ApiKeys>>) {
        let mut watcher = Self {
            folders,
            versions: Vec::new(),
            keys: watch::Sender::default(),
            error: None,
            holders,
        };
        watcher.look();
        watcher.announce();
        let keys = watcher.keys.subscribe();
        (watcher, keys)
    }

    /// Follows the folders until the process ends.
    pub async fn run(mut self) {
        loop {
            sleep(PERIOD).await;
            if self.look() {
                self.announce();
            }
        }
    }

    /// Reads the folders again if a link has moved. Returns true if the keys have changed.
    fn look(&mut self) -> bool {
        let versions: Vec<_> = self.folders.iter().map(|folder| version(folder)).collect();
        // A folder without a link is missing, or was not made by the kubelet, and is read each time.
        if versions == self.versions && versions.iter().all(Option::is_some) {
            return false;
        }
        let mut entries = Entries::new();
        let mut folders = self.folders.iter().zip(&versions);
        let result = folders
            .try_for_each(|(folder, version)| read(folder, version.as_deref(), &mut entries));
        // The keys stay as they are if the kubelet replaces the files meanwhile: the next look finds the new ones.
        if let Err(error) = result {
            let error = error.to_string();
            if self.error.as_ref() != Some(&error) {
                tracing::warn!(
                    event = "keys_unreadable",
                    error.message = error,
                    "keys_unreadable"
                );
                self.error = Some(error);
            }
            return false;
        }
        self.error = None;
        self.versions = versions;
        if matches!(self.holders, Holders::Proxy) {
            entries.retain(|name, _| name == PROXY_ENTRY);
        }
        let keys = ApiKeys::parse(&entries);
        self.keys.send_if_modified(|known| {
            let changed = **known != keys;
            if changed {
                *known = Arc::new(keys);
            }
            changed
        })
    }

    /// Logs and counts the keys, never a value.
    fn announce(&self) {
        let keys = Arc::clone(&self.keys.borrow());
        for ignored in &keys.ignored {
            tracing::warn!(
                event = "key_ignored",
                auth.entry = ignored.entry,
                rule = ignored.rule,
                "key_ignored"
            );
        }
        let Holders::Clients(metrics) = &self.holders else {
            let secrets = keys.count();
            if secrets == 0 {
                tracing::warn!(event = "proxy_secret_missing", "proxy_secret_missing");
            } else {
                tracing::info!(
                    event = "proxy_secrets_loaded",
                    secrets,
                    "proxy_secrets_loaded"
                );
            }
            return;
        };
        for client in &keys.without_scopes {
            tracing::warn!(
                event = "key_without_scopes",
                auth.client = &**client,
                "key_without_scopes"
            );
        }
        tracing::info!(event = "keys_loaded", keys = keys.count(), "keys_loaded");
        metrics.set_keys(keys.count(), keys.ignored.len());
    }
}

/// Returns the target of the folder's link, if there is one.
fn version(folder: &Path) -> Option<PathBuf> {
    fs::read_link(folder.join(DATA)).ok()
}

/// Adds the files of a folder to the entries. A folder that does not exist has none.
fn read(folder: &Path, version: Option<&Path>, entries: &mut Entries) -> io::Result<()> {
    let target = version.map_or_else(|| folder.to_owned(), |version| folder.join(version));
    let files = match fs::read_dir(&target) {
        Err(error) if error.kind() == ErrorKind::NotFound && version.is_none() => return Ok(()),
        files => files?,
    };
    for file in files {
        let file = file?;
        // The kubelet's own files begin like this.
        let name = file.file_name().into_string().unwrap_or_default();
        let path = file.path();
        if name.is_empty() || name.starts_with("..") || !fs::metadata(&path)?.is_file() {
            continue;
        }
        let value = fs::read(&path)?;
        entries.entry(name).or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use prometheus_client::registry::Registry;
    use shortener_common::exposition::Format;

    use super::*;

    const OLD: &str = "a-key-that-the-client-has-had-so-far";
    const NEW: &str = "a-key-that-the-client-has-from-now-on";

    /// Writes a version of a Secret as the kubelet does: a new folder, then a link that replaces the old one at once.
    fn mount(folder: &Path, version: &str, entries: &[(&str, &str)]) {
        let target = folder.join(version);
        fs::create_dir(&target).unwrap();
        for (name, value) in entries {
            fs::write(target.join(name), value).unwrap();
        }
        let link = folder.join("..data_tmp");
        symlink(version, &link).unwrap();
        fs::rename(link, folder.join(DATA)).unwrap();
    }

    fn is_known(keys: &watch::Receiver<Arc<ApiKeys>>, key: &str) -> bool {
        keys.borrow().find(key.as_bytes()).is_some()
    }

    #[test]
    fn a_moved_link_is_read_once_and_an_unmoved_one_never() {
        let folder = tempfile::tempdir().unwrap();
        mount(folder.path(), "..1", &[("shop", OLD)]);
        let metrics = Holders::Clients(AuthMetrics::register(&mut Registry::default()));
        let (mut watcher, keys) = Watcher::start(vec![folder.path().to_owned()], metrics);
        assert!(is_known(&keys, OLD));
        // The kubelet never writes into a version, so nothing has to be read.
        fs::write(folder.path().join("..1/shop"), NEW).unwrap();
        assert!(!watcher.look());
        assert!(is_known(&keys, OLD));
        mount(folder.path(), "..2", &[("shop", NEW)]);
        assert!(watcher.look());
        assert!(is_known(&keys, NEW) && !is_known(&keys, OLD));
        mount(folder.path(), "..3", &[("shop", NEW)]);
        assert!(!watcher.look(), "the keys are the same");
        mount(folder.path(), "..4", &[]);
        assert!(watcher.look());
        assert!(!is_known(&keys, NEW), "a deleted Secret revokes its keys");
    }

    #[test]
    fn a_folder_that_is_missing_has_no_keys_and_one_that_appears_is_read() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("keys");
        let metrics = Holders::Clients(AuthMetrics::register(&mut Registry::default()));
        let (mut watcher, keys) = Watcher::start(vec![folder.clone()], metrics);
        assert_eq!(keys.borrow().count(), 0);
        assert!(!watcher.look());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("shop"), OLD).unwrap();
        assert!(watcher.look());
        assert!(is_known(&keys, OLD));
        fs::write(folder.join("shop"), NEW).unwrap();
        assert!(watcher.look(), "without a link every look reads");
        fs::remove_dir_all(&folder).unwrap();
        assert!(watcher.look());
        assert!(!is_known(&keys, NEW));
    }

    #[test]
    fn a_version_that_vanishes_during_the_read_leaves_the_keys_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        mount(folder.path(), "..1", &[("shop", OLD)]);
        let metrics = Holders::Clients(AuthMetrics::register(&mut Registry::default()));
        let (mut watcher, keys) = Watcher::start(vec![folder.path().to_owned()], metrics);
        mount(folder.path(), "..2", &[("shop", NEW)]);
        fs::remove_dir_all(folder.path().join("..2")).unwrap();
        assert!(!watcher.look());
        assert!(is_known(&keys, OLD));
        mount(folder.path(), "..3", &[("shop", NEW)]);
        assert!(watcher.look());
        assert!(is_known(&keys, NEW));
    }

    #[test]
    fn of_two_folders_with_one_client_the_first_counts_and_both_are_followed() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        mount(first.path(), "..1", &[("shop", OLD)]);
        mount(second.path(), "..1", &[("shop", NEW)]);
        let folders = [&first, &second].map(|folder| folder.path().to_owned());
        let mut registry = Registry::default();
        let (mut watcher, keys) = Watcher::start(
            folders.to_vec(),
            Holders::Clients(AuthMetrics::register(&mut registry)),
        );
        assert!(is_known(&keys, OLD) && !is_known(&keys, NEW));
        mount(second.path(), "..2", &[("mail", NEW), ("short", "x")]);
        assert!(watcher.look());
        assert!(is_known(&keys, OLD) && is_known(&keys, NEW));
        watcher.announce();
        let text = Format::Classic.encode(&registry).unwrap();
        assert!(text.contains("auth_keys{state=\"loaded\"} 2\n"), "{text}");
        assert!(text.contains("auth_keys{state=\"ignored\"} 1\n"), "{text}");
    }

    #[test]
    fn the_secrets_of_a_proxy_are_those_of_one_entry_and_no_key_of_a_client() {
        let folder = tempfile::tempdir().unwrap();
        let both = format!("{NEW}\n{OLD}");
        mount(
            folder.path(),
            "..1",
            &[
                ("secret", &both),
                ("shop", "key-of-a-client-that-is-no-proxy"),
            ],
        );
        let (_, secrets) = Watcher::start(vec![folder.path().to_owned()], Holders::Proxy);
        assert!(is_known(&secrets, OLD) && is_known(&secrets, NEW));
        assert!(!is_known(&secrets, "key-of-a-client-that-is-no-proxy"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_seen_within_two_seconds() {
        let folder = tempfile::tempdir().unwrap();
        mount(folder.path(), "..1", &[("shop", OLD)]);
        let metrics = Holders::Clients(AuthMetrics::register(&mut Registry::default()));
        let (watcher, mut keys) = Watcher::start(vec![folder.path().to_owned()], metrics);
        let following = tokio::spawn(watcher.run());
        mount(folder.path(), "..2", &[("shop", NEW)]);
        tokio::time::timeout(2 * PERIOD, keys.changed())
            .await
            .unwrap()
            .unwrap();
        assert!(is_known(&keys, NEW));
        following.abort();
    }
}
