//! The secrets of receivers, as Standard Webhooks writes them: `whsec_` and base64.
//!
//! The kubelet keeps a Secret in a tmpfs and moves a link when it changes, so the file is read before each batch: a change
//! needs no restart, and there is nothing to follow.

use std::{fs, io::ErrorKind, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};

/// The entry of the Secret.
const ENTRY: &str = "secret";
const PREFIX: &str = "whsec_";
/// The number of secrets: two while one replaces the other.
const MAX_SECRETS: usize = 2;

/// The bytes of a secret. It is never shown.
pub struct WebhookSecret(pub(super) Vec<u8>);

/// Why there is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretFault {
    #[error("the Secret does not exist, or has no entry `secret`")]
    Missing,
    #[error("the entry `secret` cannot be read")]
    Unreadable,
    #[error(
        "the entry `secret` must have one or two lines, each whsec_ and 24 to 64 bytes in base64"
    )]
    Invalid,
}

/// Reads the secrets of a receiver from its folder in `directory`.
///
/// # Errors
/// Fails unless there are one or two valid secrets. One that is invalid is no reason to sign with the other alone: the
/// receiver may know only this one.
pub fn read(directory: &Path, receiver: &str) -> Result<Vec<WebhookSecret>, SecretFault> {
    let path = directory.join(receiver).join(ENTRY);
    let text = fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => SecretFault::Missing,
        _ => SecretFault::Unreadable,
    })?;
    parse(&text).ok_or(SecretFault::Invalid)
}

fn parse(text: &[u8]) -> Option<Vec<WebhookSecret>> {
    let text = str::from_utf8(text).ok()?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let secrets: Option<Vec<WebhookSecret>> = lines.map(secret).collect();
    secrets.filter(|secrets| (1..=MAX_SECRETS).contains(&secrets.len()))
}

fn secret(line: &str) -> Option<WebhookSecret> {
    let bytes = STANDARD.decode(line.strip_prefix(PREFIX)?).ok()?;
    (24..=64)
        .contains(&bytes.len())
        .then_some(WebhookSecret(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(length: usize) -> String {
        format!("{PREFIX}{}", STANDARD.encode(vec![7; length]))
    }

    #[test]
    fn a_secret_has_one_or_two_lines_of_24_to_64_bytes() {
        let count = |text: &str| parse(text.as_bytes()).map(|secrets| secrets.len());
        for (text, expected) in [
            (line(24), Some(1)),
            (format!("{}\n", line(64)), Some(1)),
            (format!("{}\r\n\n{}\n", line(32), line(24)), Some(2)),
            (String::new(), None),
            (line(23), None),
            (line(65), None),
            (format!("{}\n{}\n{}", line(24), line(24), line(24)), None),
            (format!("{}\nwhsec_x", line(24)), None),
            (line(24).replace(PREFIX, ""), None),
        ] {
            assert_eq!(count(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_secret_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let found = |name: &str| read(folder.path(), name).map(|secrets| secrets.len());
        assert_eq!(found("crm"), Err(SecretFault::Missing));
        fs::create_dir(folder.path().join("crm")).unwrap();
        assert_eq!(found("crm"), Err(SecretFault::Missing));
        let file = folder.path().join("crm/secret");
        fs::write(&file, line(24)).unwrap();
        assert_eq!(found("crm"), Ok(1));
        fs::write(&file, "whsec_").unwrap();
        assert_eq!(found("crm"), Err(SecretFault::Invalid));
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(found("crm"), Err(SecretFault::Unreadable));
    }
}
