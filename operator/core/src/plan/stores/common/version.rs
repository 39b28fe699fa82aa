//! The choice of a managed store's image by the version of the data on its volume.
//!
//! The volume claim records the version of the last server that was ready on the data. An image to which no step leads from
//! there is refused if the spec names it. If it is the default image, the server keeps the image that it has.

use crate::{
    model::{
        facts::{RunningServer, StoreFacts},
        stack::StoreVolume,
        version::Version,
    },
    plan::error::ValidateError,
};

/// The rule of a store for other versions than that of its data.
pub(in crate::plan::stores) struct Rule {
    /// Field of the spec with the image.
    pub(in crate::plan::stores) field: &'static str,
    /// Name of the server in messages.
    pub(in crate::plan::stores) noun: &'static str,
    pub(in crate::plan::stores) steps: Steps,
    /// Another way to a version that no step reaches, as the end of a sentence; empty if there is none.
    pub(in crate::plan::stores) instead: &'static str,
}

/// The steps from one version to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plan::stores) enum Steps {
    /// Only servers of the same major version read the data.
    SameMajor,
    /// To the next minor version, or to the first one of the next major version. Never back.
    NextMinor,
}

/// The images that a store can get.
pub(in crate::plan::stores) struct Offered<'a> {
    /// The one that the spec names.
    pub(in crate::plan::stores) named: Option<&'a str>,
    /// The default image for a new volume.
    pub(in crate::plan::stores) default: &'a str,
}

/// The image that a store gets.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::plan::stores) struct Choice<'a> {
    pub(in crate::plan::stores) image: &'a str,
    /// Version of the data, if it is known.
    pub(in crate::plan::stores) version: Option<Version>,
    /// Reason for which this is not the default image, though the spec names none.
    pub(in crate::plan::stores) kept: Option<String>,
}

/// The data of a store.
#[derive(Clone, Copy)]
enum Data<'a> {
    /// There is none yet.
    New,
    /// The operator did not create the claim (it may come from a snapshot), and no server has read it yet.
    Unknown,
    /// A server of this version was ready on it, or is the first one.
    Of(Version),
    /// It exists, and the image of its server does not contain the version, or may not fit the data.
    Untold(&'a str),
}

impl StoreVolume {
    /// Adds what the image of its server was chosen by.
    pub(in crate::plan::stores) fn chosen(self, choice: &Choice<'_>) -> Self {
        Self {
            version: choice.version,
            kept_image: choice.kept.clone(),
            ..self
        }
    }
}

impl Rule {
    /// Chooses the image of a store. `fitting` returns the default image for data of a version; `claim` is the name of the
    /// volume claim.
    pub(in crate::plan::stores) fn choose<'a>(
        &self,
        facts: &'a StoreFacts,
        images: &Offered<'a>,
        claim: &str,
        fitting: impl Fn(Version) -> Option<&'a str>,
    ) -> Result<Choice<'a>, ValidateError> {
        let plain = |image, version| Choice {
            image,
            version,
            kept: None,
        };
        match (images.named, self.data(facts)) {
            (Some(named), Data::Of(from)) => match self.step_to(from, named) {
                Ok(()) => Ok(plain(named, Some(from))),
                Err(remedy) => Err(self.refusal(named, claim, from, remedy)),
            },
            (Some(named), Data::New) => Ok(plain(named, self.version(named))),
            (Some(named), Data::Unknown | Data::Untold(_)) => Ok(plain(named, None)),
            (None, Data::New) => Ok(plain(images.default, self.version(images.default))),
            (None, Data::Unknown) => Ok(plain(images.default, None)),
            (None, Data::Untold(image)) if image == images.default => Ok(plain(image, None)),
            (None, Data::Untold(image)) => Ok(Choice {
                kept: Some(self.untold(image, images.default)),
                ..plain(image, None)
            }),
            (None, Data::Of(from)) => {
                let default = fitting(from);
                let step = default.map_or_else(
                    || Err(self.remedy(from, None)),
                    |image| self.step_to(from, image).map(|()| image),
                );
                let remedy = match step {
                    Ok(image) => return Ok(plain(image, Some(from))),
                    Err(remedy) => remedy,
                };
                let default = default.unwrap_or(images.default);
                let running = running(facts);
                let running =
                    running.ok_or_else(|| self.refusal(default, claim, from, remedy.clone()))?;
                let noun = self.noun;
                let kept = format!(
                    "the server keeps the image {}, because the data is of {noun} {from} and the default image is {default}: {remedy}",
                    running.image
                );
                Ok(Choice {
                    kept: Some(kept),
                    ..plain(&running.image, Some(from))
                })
            }
        }
    }

    /// Returns true when a step leads from one image to another. Between images whose versions are unknown, none does.
    pub(in crate::plan::stores) fn leads(&self, from: &str, to: &str) -> bool {
        let versions = self.version(from).zip(self.version(to));
        from == to || versions.is_some_and(|(from, to)| self.step(from, to).is_ok())
    }

    fn data<'a>(&self, facts: &'a StoreFacts) -> Data<'a> {
        let StoreFacts::Managed {
            claim: Some(claim), ..
        } = facts
        else {
            return Data::New;
        };
        let running = running(facts);
        let ready = running.filter(|server| server.is_ready);
        let ready = ready.and_then(|server| self.version(&server.image));
        match (claim.version, ready, running) {
            (Some(recorded), Some(ready), _) if self.step(recorded, ready).is_ok() => {
                Data::Of(ready)
            }
            (Some(recorded), ..) => Data::Of(recorded),
            (None, Some(ready), _) => Data::Of(ready),
            (None, None, Some(server)) => Data::Untold(&server.image),
            (None, None, None) => Data::Unknown,
        }
    }

    /// Returns the version in an image's tag, as far as the rule needs it; `None` if it is not all there.
    fn version(&self, image: &str) -> Option<Version> {
        let version = Version::of_image(image)?;
        match self.steps {
            Steps::SameMajor => Some(Version {
                minor: None,
                ..version
            }),
            Steps::NextMinor => version.minor.map(|_| version),
        }
    }

    /// Checks the step to an image. One whose version is unknown passes.
    fn step_to(&self, from: Version, image: &str) -> Result<(), String> {
        self.version(image).map_or(Ok(()), |to| self.step(from, to))
    }

    /// Checks a step between versions; the error is the remedy.
    fn step(&self, from: Version, to: Version) -> Result<(), String> {
        let next = |from: Version, to: Version| {
            let (minor, next) = (to.minor, next_minor(from));
            let within = to.major == from.major && (minor == from.minor || minor == next);
            within || (Some(to.major) == from.major.checked_add(1) && minor == Some(0))
        };
        let is_step = match self.steps {
            Steps::SameMajor => from.major == to.major,
            Steps::NextMinor => next(from, to),
        };
        is_step
            .then_some(())
            .ok_or_else(|| self.remedy(from, Some(to)))
    }

    /// Returns what to do instead of a step that the rule forbids.
    fn remedy(&self, from: Version, to: Option<Version>) -> String {
        let (noun, instead) = (self.noun, self.instead);
        match self.steps {
            Steps::SameMajor => format!("set an image of {noun} {}{instead}", from.major),
            Steps::NextMinor if to.is_some_and(|to| to < from) => {
                format!(
                    "{noun} does not go back, so set an image of {noun} {from} or later{instead}"
                )
            }
            Steps::NextMinor => {
                let next = Version {
                    minor: next_minor(from),
                    ..from
                };
                format!("set an image of {noun} {next} first, and wait until it is ready{instead}")
            }
        }
    }

    fn refusal(&self, wanted: &str, claim: &str, from: Version, remedy: String) -> ValidateError {
        ValidateError::VersionRefused {
            field: self.field,
            wanted: wanted.to_owned(),
            claim: claim.to_owned(),
            data: format!("{} {from}", self.noun),
            remedy,
        }
    }

    fn untold(&self, image: &str, default: &str) -> String {
        format!(
            "the server keeps the image {image}, because its version is unknown and the default image is {default}: set {} to \
             an image with a tag",
            self.field
        )
    }
}

/// Returns the minor version after another one. The largest number, which a tag can have, is its own next one.
fn next_minor(version: Version) -> Option<u32> {
    version.minor.map(|minor| minor.saturating_add(1))
}

/// Returns the server of a store that the operator runs.
fn running(facts: &StoreFacts) -> Option<&RunningServer> {
    match facts {
        StoreFacts::Managed { running, .. } => running.as_ref(),
        StoreFacts::External { .. } | StoreFacts::Unread(_) => None,
    }
}

#[cfg(test)]
mod tests;
