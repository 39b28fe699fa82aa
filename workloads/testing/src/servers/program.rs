//! Programs of the images as processes of this machine, which a test can stop and freeze.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{engine, lifetime::Folder};

/// Packs a program with the libraries that it needs. The loader prints the paths that it opens, and links among them
/// become files.
const PACK: &str = r#"set -e
path=$(command -v "$1")
tar --create --dereference "$path" $(ldd "$path" | grep -o "/[^ ]*") 2>/dev/null"#;

/// Copies a program with its libraries from an image into the folder; returns the path of a command that runs it.
pub(super) fn take(folder: &Folder, variable: &str, program: &str) -> Result<[String; 1]> {
    let image = engine::image(variable)?;
    let root = folder.path("root");
    fs::create_dir(&root)?;
    let mut packed = Command::new("docker")
        .args(["run", "--rm", "--entrypoint", "sh", &image, "-c"])
        .args([PACK, "sh", program])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("`docker` cannot be run")?;
    let unpacked = Command::new("tar")
        .args(["--extract", "--verbose", "--directory"])
        .arg(&root)
        .stdin(packed.stdout.take().unwrap())
        .output();
    ensure!(
        packed.wait()?.success(),
        "the image {image} has no {program}, or no `tar` or `ldd`"
    );
    let unpacked = unpacked.context("`tar` cannot be run: install GNU tar")?;
    ensure!(
        unpacked.status.success(),
        "{program} of the image {image} cannot be unpacked in {}: {}",
        root.display(),
        String::from_utf8_lossy(&unpacked.stderr)
    );
    let command = folder.path(program);
    let files = String::from_utf8(unpacked.stdout)?;
    fs::write(&command, script(program, &root, &files)?)?;
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755))?;
    // This command does nothing but end, and the folder is removed then.
    folder.start(&Command::new("cat"))?.ready(|_| Some(()))?;
    Ok([command.display().to_string()])
}

/// Returns a script that runs a program with the libraries of its image, which are among these files.
fn script(program: &str, root: &Path, files: &str) -> Result<String> {
    let paths = || files.lines().map(Path::new);
    let find = |wanted: &dyn Fn(&str) -> bool| {
        let mut found = paths().filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(wanted)
        });
        found
            .next()
            .map(|path| root.join(path).display().to_string())
    };
    let path = find(&|name| name == program).context("the program is not among the files")?;
    let loader = find(&|name| name.starts_with("ld-linux"))
        .context("the loader is not among the libraries of the program")?;
    let mut libraries: Vec<String> = paths()
        .filter(|path| path.display().to_string().contains(".so"))
        .filter_map(|path| Some(root.join(path.parent()?).display().to_string()))
        .collect();
    libraries.sort();
    libraries.dedup();
    let libraries = libraries.join(":");
    Ok(format!(
        "#!/bin/sh\nexec '{loader}' --library-path '{libraries}' --argv0 {program} '{path}' \"$@\"\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_with_the_loader_and_all_libraries_of_its_image() {
        let files = "usr/bin/server\nlib/x/libc.so.6\nusr/lib/x/libssl.so.3\nlib/x/libm.so.6\nlib64/ld-linux-x86-64.so.2\n";
        assert_eq!(
            script("server", Path::new("/r"), files).unwrap(),
            "#!/bin/sh\nexec '/r/lib64/ld-linux-x86-64.so.2' --library-path '/r/lib/x:/r/lib64:/r/usr/lib/x' \
             --argv0 server '/r/usr/bin/server' \"$@\"\n"
        );
        let error = script("other", Path::new("/r"), files).unwrap_err();
        assert_eq!(error.to_string(), "the program is not among the files");
    }
}
