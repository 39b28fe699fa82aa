//! The errors that say nothing against the server.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Returns true if a healthy server rejected a command in time, such as a write to a full cache. The breaker stays
/// closed then.
pub(super) fn is_refusal(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    match error.kind() {
        // Another server has to be found, or this one is not ready.
        ErrorKind::Server(
            Ask | BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain,
        ) => false,
        ErrorKind::Server(_) | ErrorKind::Extension => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sound_server_s_refusal_leaves_the_breaker_closed() {
        let server = |kind: ServerErrorKind| RedisError::from((kind.into(), "x"));
        for kind in [ServerErrorKind::NoPerm, ServerErrorKind::ResponseError] {
            assert!(is_refusal(&server(kind)), "{kind:?}");
        }
        assert!(is_refusal(&redis::make_extension_error(
            "OOM".to_owned(),
            None
        )));
        for kind in [
            ServerErrorKind::ReadOnly,
            ServerErrorKind::BusyLoading,
            ServerErrorKind::ClusterDown,
        ] {
            assert!(!is_refusal(&server(kind)), "{kind:?}");
        }
        for kind in [
            ErrorKind::Io,
            ErrorKind::Parse,
            ErrorKind::UnexpectedReturnType,
        ] {
            assert!(!is_refusal(&RedisError::from((kind, "x"))), "{kind:?}");
        }
    }
}
