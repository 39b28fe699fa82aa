//! The meaning of errors: those that say nothing against the server, and those that keep it from being used.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use shortener_common::backends::Fault;

/// What an error says about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A healthy server rejected the command in time, such as a write to a full cache.
    Refusal,
    /// Another server has to be found, or this one is not ready.
    Unready,
    /// There is no answer, or none that can be understood.
    Failure,
}

impl Meaning {
    pub(super) fn of(error: &RedisError) -> Self {
        use ServerErrorKind::{
            Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain,
        };
        match error.kind() {
            ErrorKind::Server(
                Ask | BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain,
            ) => Self::Unready,
            ErrorKind::Server(_) | ErrorKind::Extension => Self::Refusal,
            _ => Self::Failure,
        }
    }
}

/// Returns the fault behind a connection that could not be made or checked; `None` if the server answers, and with
/// something else than a refusal.
pub(super) fn fault_of_connecting(error: &RedisError) -> Option<Fault> {
    if matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")) {
        return Some(Fault::Denied);
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => Some(Fault::Denied),
        ErrorKind::MasterNameNotFoundBySentinel => Some(Fault::NotFound),
        ErrorKind::Server(_) | ErrorKind::Extension => None,
        _ => Some(Fault::of_connection(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_refused_login_is_told_apart_from_silence() {
        let answer = |code: &str| redis::make_extension_error(code.to_owned(), None);
        let away = io::Error::from(io::ErrorKind::ConnectionRefused);
        for (error, expected) in [
            (answer("NOAUTH"), Some(Fault::Denied)),
            (answer("WRONGPASS"), Some(Fault::Denied)),
            (
                RedisError::from((ServerErrorKind::NoPerm.into(), "x")),
                Some(Fault::Denied),
            ),
            (
                RedisError::from((ErrorKind::AuthenticationFailed, "x")),
                Some(Fault::Denied),
            ),
            (
                RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "x")),
                Some(Fault::NotFound),
            ),
            (
                RedisError::from((ServerErrorKind::BusyLoading.into(), "x")),
                None,
            ),
            (RedisError::from(away), Some(Fault::Unreachable)),
        ] {
            assert_eq!(fault_of_connecting(&error), expected, "{error}");
        }
    }

    #[test]
    fn a_sound_server_refuses_another_is_not_ready_and_the_rest_is_no_answer() {
        let server = |kind: ServerErrorKind| RedisError::from((kind.into(), "x"));
        for kind in [ServerErrorKind::NoPerm, ServerErrorKind::ResponseError] {
            assert_eq!(Meaning::of(&server(kind)), Meaning::Refusal, "{kind:?}");
        }
        let full = redis::make_extension_error("OOM".to_owned(), None);
        assert_eq!(Meaning::of(&full), Meaning::Refusal);
        for kind in [
            ServerErrorKind::ReadOnly,
            ServerErrorKind::BusyLoading,
            ServerErrorKind::ClusterDown,
        ] {
            assert_eq!(Meaning::of(&server(kind)), Meaning::Unready, "{kind:?}");
        }
        for kind in [
            ErrorKind::Io,
            ErrorKind::Parse,
            ErrorKind::UnexpectedReturnType,
        ] {
            let error = RedisError::from((kind, "x"));
            assert_eq!(Meaning::of(&error), Meaning::Failure, "{kind:?}");
        }
    }
}
