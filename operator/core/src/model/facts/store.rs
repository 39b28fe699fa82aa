//! Facts about a store.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::apps::v1::StatefulSet};

use super::{ClaimFact, CredentialState};
use crate::{
    api::SecretKeyRef,
    model::{
        access::{self, Access, Part},
        external::{ExternalReference, TlsFile},
        failure::StepFailure,
    },
};

#[derive(Clone, Debug)]
pub enum StoreFacts {
    /// A store that the operator runs.
    Managed {
        /// The Secret `<stack>-<component>`.
        credentials: CredentialState,
        /// The server that runs on its volume, if there is one.
        running: Option<RunningServer>,
        /// Its PersistentVolumeClaim, if that exists.
        claim: Option<ClaimFact>,
    },
    /// A store that the operator does not run.
    External {
        /// Reference to the Secret with the address and the credentials.
        reference: SecretKeyRef,
        /// Address and credentials, if the Secret and its keys exist.
        found: Option<ExternalAccess>,
        /// Certificates and keys of its clients, if the spec asks for TLS.
        tls: Option<Vec<TlsEntry>>,
    },
    /// A store whose Secrets or volume claim could not be read.
    Unread(StepFailure),
}

/// The server of a store that the operator runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningServer {
    pub image: String,
    /// True when a pod of this image is ready, so that it reads the data.
    pub is_ready: bool,
}

impl RunningServer {
    /// Returns the server of a StatefulSet with one pod.
    pub fn of(live: &StatefulSet) -> Option<Self> {
        let spec = live.spec.as_ref()?;
        let container = spec.template.spec.as_ref()?.containers.first()?;
        let is_ready = live.status.as_ref().is_some_and(|status| {
            let has_pod = status.updated_replicas > Some(0) && status.ready_replicas > Some(0);
            has_pod && status.observed_generation >= live.metadata.generation
        });
        Some(Self {
            image: container.image.clone()?,
            is_ready,
        })
    }
}

/// Address and credentials of an external server.
#[derive(Clone)]
pub struct ExternalAccess {
    /// The keys of the Secret that contain them.
    pub access: Access,
    /// The values of these keys.
    pub entries: BTreeMap<String, ByteString>,
}

impl ExternalAccess {
    /// Finds address and credentials of a server, of which clients accept these parts, in the data of a Secret; `None`
    /// if they are missing.
    pub fn find(
        parts: &[Part],
        reference: &ExternalReference,
        mut data: BTreeMap<String, ByteString>,
    ) -> Option<Self> {
        let access = match reference.by_parts {
            true => access::find_parts(parts, &data),
            false => access::find(parts, reference.secret.key.as_deref(), &data),
        }?;
        // A change of any other key is no reason to restart a pod.
        data.retain(|key, _| access.keys().contains(&key.as_str()));
        Some(Self {
            access,
            entries: data,
        })
    }
}

crate::debug_only!(ExternalAccess: access);

/// A file that clients need for TLS.
#[derive(Clone)]
pub struct TlsEntry {
    /// Kind of the file, and its place.
    pub file: TlsFile,
    /// Its content, if the Secret and its key exist.
    pub value: Option<ByteString>,
}

crate::debug_only!(TlsEntry: file);
