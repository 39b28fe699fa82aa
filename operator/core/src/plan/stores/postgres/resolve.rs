//! Resolution of the database.

use kube_core::ResourceExt;

use super::{cluster, default_resources};
use crate::{
    model::{
        defaults::Images,
        facts::{ClusterFact, StoreFacts},
        metadata::{Component, component_name},
        stack::Store,
        version::Version,
    },
    plan::{
        error::ValidateError,
        pod_settings::pod,
        stores::common::{Offered, RequestedStore, Rule, Steps, StoreContext, volume},
    },
};

/// Its rule for other versions than that of its data.
pub(in crate::plan::stores) const RULE: Rule = Rule {
    field: "database.managed.image",
    noun: "PostgreSQL",
    steps: Steps::SameMajor,
    instead: ", or move the data as docs/upgrading.md describes",
};

pub(in crate::plan) fn resolve(
    context: &StoreContext<'_>,
    facts: StoreFacts,
    cluster: &ClusterFact,
) -> Result<Store, ValidateError> {
    cluster::check(context.stack, cluster)?;
    let managed = context.stack.spec.database.managed.as_deref();
    let managed = managed.cloned().unwrap_or_default();
    let images = &context.defaults.images;
    let offered = Offered {
        named: managed.pod.image.as_deref(),
        default: &images.postgres,
    };
    let claim = component_name(&context.stack.name_any(), Component::Postgres);
    let chosen = RULE.choose(&facts, &offered, &claim, |data| fitting(images, data))?;
    let pod = pod(&managed.pod, chosen.image, default_resources());
    let volume = volume(managed.storage, managed.storage_class_name).chosen(&chosen);
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

/// Returns the default image that reads data of a version.
fn fitting(images: &Images, data: Version) -> Option<&str> {
    let major = |image: &str| Version::of_image(image).map(|version| version.major);
    let mut settings = [&images.postgres, &images.postgres_17].into_iter();
    let by_tag = settings.find(|image| major(image) == Some(data.major));
    // An image that is named by digest alone does not contain its version. Then its setting decides.
    let by_setting = match data.major {
        17 => Some(&images.postgres_17),
        18 => Some(&images.postgres),
        _ => None,
    };
    let fitting = by_tag.or(by_setting.filter(|image| major(image).is_none()));
    fitting.map(String::as_str)
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
            let data = Version {
                major: made_by,
                minor: None,
            };
            assert_eq!(fitting(&images, data), expected, "{postgres} {made_by}");
        }
    }
}
