//! Resolution of the database.

use kube_core::ResourceExt;

use super::default_resources;
use crate::{
    model::{
        defaults::Images,
        facts::{RunningServer, StoreFacts},
        metadata::{Component, component_name},
        stack::Store,
    },
    plan::{
        error::ValidateError,
        pod_settings::pod,
        stores::common::{RequestedStore, StoreContext, volume},
    },
};

pub(in crate::plan) fn resolve(
    context: &StoreContext<'_>,
    facts: StoreFacts,
) -> Result<Store, ValidateError> {
    let managed = context.stack.spec.database.managed.as_deref();
    let managed = managed.cloned().unwrap_or_default();
    let data = data(&facts);
    let images = &context.defaults.images;
    let claim = component_name(&context.stack.name_any(), Component::Postgres);
    let image: &str = match (&managed.pod.image, data) {
        (Some(named), Data::Of(major)) => {
            same_major(named, major, claim)?;
            named
        }
        (Some(named), Data::New | Data::Unknown | Data::Untold(_)) => named,
        (None, Data::Of(major)) => default_image(images, major, claim)?,
        // A default image may be of another version.
        (None, Data::Untold(running)) => running,
        (None, Data::New | Data::Unknown) => &images.postgres,
    };
    let pod = pod(&managed.pod, image, default_resources());
    let mut volume = volume(managed.storage, managed.storage_class_name);
    volume.postgres_major = match data {
        Data::New => major(&pod.image),
        Data::Of(major) => Some(major),
        Data::Unknown | Data::Untold(_) => None,
    };
    let wanted = RequestedStore {
        component: Component::Postgres,
        pod,
        volume: Some(volume),
    };
    let mut store = context.store(wanted, facts)?;
    let external = context.stack.spec.database.external.as_ref();
    if let (Store::External { tls, pooler, .. }, Some(external)) = (&mut store, external) {
        *pooler = external.pooler;
        if let (Some(tls), Some(settings)) = (tls, &external.tls) {
            tls.mode = Some(settings.mode);
        }
    }
    Ok(store)
}

/// The data of a database.
#[derive(Clone, Copy)]
enum Data<'a> {
    /// There is none yet.
    New,
    /// The operator did not create the claim (it may come from a snapshot), and no server has read it yet.
    Unknown,
    /// A server of this major version initialised it.
    Of(u32),
    /// It exists, and the image of its server does not contain the version, or may not fit the data.
    Untold(&'a str),
}

/// Returns the data of a database.
///
/// The claim's annotation contains the version, unless the first image was named by its digest alone or somebody else
/// made the claim. Then the running image decides, as soon as its server is ready: PostgreSQL does not start on data of
/// another major version.
fn data(facts: &StoreFacts) -> Data<'_> {
    let StoreFacts::Managed {
        running,
        claim: Some(claim),
        ..
    } = facts
    else {
        return Data::New;
    };
    match (claim.major, running) {
        (Some(recorded), _) => Data::Of(recorded),
        (None, None) => Data::Unknown,
        (None, Some(RunningServer { image, is_ready })) => match major(image) {
            Some(major) if *is_ready => Data::Of(major),
            _ => Data::Untold(image),
        },
    }
}

fn same_major(wanted: &str, made_by: u32, claim: String) -> Result<(), ValidateError> {
    match major(wanted) {
        Some(wanted_major) if wanted_major != made_by => Err(ValidateError::MajorVersionChange {
            wanted: wanted.to_owned(),
            claim,
            major: made_by,
        }),
        _ => Ok(()),
    }
}

/// Returns the default image that reads data of a major version.
fn default_image(images: &Images, made_by: u32, claim: String) -> Result<&String, ValidateError> {
    let mut settings = [&images.postgres, &images.postgres_17].into_iter();
    let by_tag = settings.find(|image| major(image) == Some(made_by));
    // An image that is named by digest alone does not contain its version. Then its setting decides.
    let by_setting = match made_by {
        17 => Some(&images.postgres_17),
        18 => Some(&images.postgres),
        _ => None,
    };
    by_tag
        .or(by_setting.filter(|image| major(image).is_none()))
        .ok_or(ValidateError::NoImageForMajor {
            claim,
            major: made_by,
        })
}

/// Returns the leading number of an image's tag; `None` for a digest, or for a name without a tag.
fn major(image: &str) -> Option<u32> {
    let name = image.split('@').next()?.rsplit('/').next()?;
    let (_, tag) = name.split_once(':')?;
    let digits = tag.find(|c: char| !c.is_ascii_digit()).unwrap_or(tag.len());
    tag[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stack::defaults;

    #[test]
    fn the_default_image_is_the_first_that_reads_the_data() {
        let table = [
            ("postgres:18.6", "postgres:17.12", 18, Some("postgres:18.6")),
            (
                "postgres:18.6",
                "postgres:17.12",
                17,
                Some("postgres:17.12"),
            ),
            // An operator whose default image stays at 17 keeps its image when the claim's major version is 17.
            (
                "mirror.test/postgres:17.6",
                "postgres:17.12",
                17,
                Some("mirror.test/postgres:17.6"),
            ),
            ("mirror.test/postgres:17.6", "postgres:17.12", 18, None),
            (
                "postgres@sha256:a",
                "postgres@sha256:b",
                18,
                Some("postgres@sha256:a"),
            ),
            (
                "postgres@sha256:a",
                "postgres@sha256:b",
                17,
                Some("postgres@sha256:b"),
            ),
            ("postgres:18.6", "postgres:17.12", 16, None),
        ];
        let mut images = defaults().images;
        for (postgres, postgres_17, made_by, expected) in table {
            images.postgres = postgres.to_owned();
            images.postgres_17 = postgres_17.to_owned();
            let found = default_image(&images, made_by, "demo-postgres".to_owned()).ok();
            assert_eq!(found.map(String::as_str), expected, "{postgres} {made_by}");
        }
    }

    #[test]
    fn the_major_version_is_the_leading_number_of_the_tag() {
        for (image, expected) in [
            ("postgres:18.6", Some(18)),
            ("mirror.test/library/postgres:17-bookworm", Some(17)),
            ("registry.test:5000/postgres:18", Some(18)),
            ("registry.test:5000/postgres", None),
            ("registry.test:5000/postgres@sha256:17", None),
            ("postgres:18.6@sha256:17", Some(18)),
            ("postgres:latest", None),
            ("postgres", None),
        ] {
            assert_eq!(major(image), expected, "{image}");
        }
    }
}
