//! The command `app authorities`: copies the certificates of the public authorities out of the image, for a container beside it
//! whose image has none.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::Args;

/// Settings of `app authorities`.
#[derive(Clone, Debug, Args)]
pub struct AuthoritiesArgs {
    /// File that gets the certificates (PEM).
    pub to: PathBuf,
    /// File with the certificates of the image.
    #[arg(long, default_value = "/etc/ssl/certs/ca-certificates.crt")]
    pub from: PathBuf,
}

/// Copies the certificates.
///
/// # Errors
/// Fails if the image has none, or the file cannot be written.
pub fn copy(args: &AuthoritiesArgs) -> anyhow::Result<()> {
    let AuthoritiesArgs { to, from } = args;
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_certificates_of_the_image_or_the_command_fails() {
        let folder = std::env::temp_dir().join(format!("authorities-{}", uuid::Uuid::now_v7()));
        fs::create_dir(&folder).unwrap();
        let args = AuthoritiesArgs {
            to: folder.join("copy"),
            from: folder.join("bundle"),
        };
        let error = copy(&args).unwrap_err().to_string();
        assert!(error.contains("bundle"), "{error}");
        fs::write(&args.from, "certificates").unwrap();
        copy(&args).unwrap();
        assert_eq!(fs::read_to_string(&args.to).unwrap(), "certificates");
        fs::remove_dir_all(folder).unwrap();
    }
}
