//! A registry with copies of the default images, for clusters that cannot reach the public registries.

use std::str::FromStr;

use super::DefaultImages;

/// Registry of images whose name contains no registry.
const DOCKER_HUB: &str = "docker.io";

/// A registry as `host[:port][/path]`; the path is needed if the copies are not at the root of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRegistry(String);

impl FromStr for ImageRegistry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        let mut parts = text.split('/');
        let sound = parts.all(|part| !part.is_empty() && part.bytes().all(plain));
        // A single word without a dot or a port would be read as a folder of Docker Hub.
        let host = text.split('/').next().filter(|host| is_host(host));
        if sound && host.is_some() {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "`{text}` is not a registry: write host[:port][/path] with a dot or a port in the host, without https:// and \
                 without '/' at the end"
            ))
        }
    }
}

impl ImageRegistry {
    /// Returns the name of this registry's copy of an image: the same path, with the registry in front.
    fn copy_of(&self, image: &str) -> String {
        let (host, path) = match image.split_once('/') {
            Some((host, path)) if is_host(host) => (host, path),
            _ => (DOCKER_HUB, image),
        };
        // Docker Hub keeps images with a single-word name in the folder `library`.
        let folder = if host == DOCKER_HUB && !path.contains('/') {
            "library/"
        } else {
            ""
        };
        format!("{}/{folder}{path}", self.0)
    }
}

impl DefaultImages {
    /// Replaces the images of those arguments for which `is_default` is true with their copies in `registry`.
    pub(super) fn take_defaults_from(
        &mut self,
        registry: &ImageRegistry,
        is_default: impl Fn(&str) -> bool,
    ) {
        for (argument, image) in self.arguments() {
            if is_default(argument) {
                *image = registry.copy_of(image);
            }
        }
    }
}

/// Returns true when the first part of an image's name is a registry and not a folder, by the rule of all clients.
fn is_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_full_path_of_its_original() {
        for (registry, image, copy) in [
            ("r.example", "postgres:18", "r.example/library/postgres:18"),
            (
                "r.example",
                "docker.io/postgres",
                "r.example/library/postgres",
            ),
            ("r.example", "grafana/lgtm:1", "r.example/grafana/lgtm:1"),
            ("r.example/hub", "ghcr.io/a/b:1", "r.example/hub/a/b:1"),
            ("localhost:5000", "ghcr.io/b:1", "localhost:5000/b:1"),
            (
                "r.example:5000",
                "localhost/a/b@sha256:0",
                "r.example:5000/a/b@sha256:0",
            ),
        ] {
            let registry: ImageRegistry = registry.parse().unwrap();
            assert_eq!(registry.copy_of(image), copy);
        }
    }

    #[test]
    fn what_is_no_registry_is_refused_with_the_remedy() {
        for text in [
            "https://r.example",
            "r.example/",
            "mirror",
            "mirror/hub",
            "r .example",
            "",
        ] {
            let error = text.parse::<ImageRegistry>().unwrap_err();
            assert!(error.contains("host[:port][/path]"), "{error}");
        }
    }
}
