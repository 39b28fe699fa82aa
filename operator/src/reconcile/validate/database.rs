//! Where the links are kept.

use super::{
    ValidateError,
    pod::pod,
    store::{Surroundings, Wanted, volume},
};
use crate::{
    metadata::Component,
    reconcile::{build::postgres, gather::StoreFacts, stack::Store},
};

/// Resolves the database.
pub(super) fn database(
    surroundings: &Surroundings<'_>,
    facts: StoreFacts,
) -> Result<Store, ValidateError> {
    let managed = surroundings.stack.spec.database.managed.clone();
    let managed = managed.unwrap_or_default();
    let pod = pod(
        &managed.pod,
        &surroundings.settings.images.postgres,
        postgres::default_resources(),
    );
    if let StoreFacts::Managed {
        running_image: Some(running),
        ..
    } = &facts
    {
        same_major(&pod.image, running)?;
    }
    let wanted = Wanted {
        component: Component::Postgres,
        field: "database",
        pod,
        volume: Some(volume(managed.storage, managed.storage_class_name)),
    };
    surroundings.store(wanted, facts)
}

fn same_major(wanted: &str, running: &str) -> Result<(), ValidateError> {
    match major(wanted).zip(major(running)) {
        Some((new, old)) if new != old => Err(ValidateError::MajorVersionChange {
            wanted: wanted.to_owned(),
            running: running.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The leading number of an image's tag; none for a digest or a name without one.
fn major(image: &str) -> Option<u32> {
    let (_, tag) = image.split('@').next()?.rsplit_once(':')?;
    let digits = tag.find(|c: char| !c.is_ascii_digit()).unwrap_or(tag.len());
    tag[..digits].parse().ok()
}
