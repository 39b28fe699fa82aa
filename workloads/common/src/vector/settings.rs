//! Settings of the vector store.

use clap::{Args, ValueEnum};

use crate::config::{port, url_of};

/// Qdrant's port of gRPC.
const PORT: u16 = 6334;

/// How near two vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Distance {
    /// The cosine of the angle; higher is nearer.
    Cosine,
    /// The dot product; higher is nearer.
    Dot,
    /// The distance between the points; lower is nearer.
    Euclid,
}

impl From<Distance> for qdrant_client::qdrant::Distance {
    fn from(distance: Distance) -> Self {
        match distance {
            Distance::Cosine => Self::Cosine,
            Distance::Dot => Self::Dot,
            Distance::Euclid => Self::Euclid,
        }
    }
}

/// Where the vector store is and what its collection looks like.
#[derive(Clone, Debug, Args)]
pub struct VectorArgs {
    /// `http[s]://host:6334`, the port of gRPC; without it the vector profile is off.
    #[arg(long, env)]
    pub vector_url: Option<String>,
    /// In the place of a URL: the store's name or address. TLS needs a URL.
    #[arg(long, env)]
    pub vector_host: Option<String>,
    /// The port of gRPC of that store, 6334 when absent.
    #[arg(long, env, value_parser = port)]
    pub vector_port: Option<u16>,
    /// The key that the store asks for.
    #[arg(long, env, hide_env_values = true)]
    pub vector_api_key: Option<String>,
    /// The collection. Every stack needs one of its own, because it holds nothing else.
    #[arg(long, env, default_value = "docs")]
    pub vector_collection: String,
    /// How many numbers a vector has.
    #[arg(long, env, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub vector_size: u32,
    /// How near two vectors are.
    #[arg(long, env, value_enum, default_value_t = Distance::Cosine)]
    pub vector_distance: Distance,
}

impl VectorArgs {
    /// The store's address; `None` when the vector profile is off.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        let given = |value: &Option<String>| {
            let value = value.as_deref()?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let of_host = |host: String| url_of("http", &host, self.vector_port.unwrap_or(PORT));
        given(&self.vector_url).or_else(|| given(&self.vector_host).map(of_host))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        vector: VectorArgs,
    }

    fn url(arguments: &[&str]) -> Option<String> {
        let program = ["program"];
        Settings::parse_from(program.iter().chain(arguments))
            .vector
            .url()
    }

    #[test]
    fn a_store_has_the_address_of_its_url_or_of_its_host() {
        assert_eq!(url(&[]), None);
        assert_eq!(url(&["--vector-url", "", "--vector-host", ""]), None);
        let of_host = url(&["--vector-host", "a"]);
        assert_eq!(of_host.as_deref(), Some("http://a:6334"));
        let of_both = url(&["--vector-host", "a", "--vector-url", "https://b:1"]);
        assert_eq!(of_both.as_deref(), Some("https://b:1"));
    }
}
