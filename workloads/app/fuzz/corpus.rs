//! Unpacks the kept inputs into the folders that the fuzzer works with, and packs these folders again.

use std::{collections::BTreeSet, env, error::Error, ffi::OsStr, fs, path::Path};

mod lines;

fn main() -> Result<(), Box<dyn Error>> {
    let action = match env::args().nth(1).as_deref() {
        Some("unpack") => unpack,
        Some("pack") => pack,
        _ => return Err("usage: corpus unpack | pack".into()),
    };
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"))? {
        let kept = entry?.path();
        if kept.extension() == Some(OsStr::new("txt")) {
            action(&kept, &kept.with_extension(""))?;
        }
    }
    Ok(())
}

/// Writes each line of the file as a file of the folder.
fn unpack(kept: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    for (number, line) in (1..).zip(fs::read_to_string(kept)?.lines()) {
        let place = || format!("{}:{number} is not an input", kept.display());
        let input = lines::input(line).ok_or_else(place)?;
        fs::write(folder.join(format!("kept-{number}")), input)?;
    }
    Ok(())
}

/// Replaces the file by the sorted inputs of the folder.
fn pack(kept: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut packed = BTreeSet::new();
    let entries = fs::read_dir(folder)
        .map_err(|error| format!("{}: {error}: unpack before you pack", folder.display()))?;
    for entry in entries {
        packed.insert(lines::line(&fs::read(entry?.path())?) + "\n");
    }
    fs::write(kept, String::from_iter(packed))?;
    Ok(())
}
