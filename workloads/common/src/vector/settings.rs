//! Settings of the vector store.

use clap::{Args, ValueEnum};

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
