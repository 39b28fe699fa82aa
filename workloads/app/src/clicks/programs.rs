//! Programs, by their user agent.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use tokio::task::spawn_blocking;

/// The version of the list, and the texts of user agents of programs, one a line; see the README beside the file.
const LIST: &str = include_str!("../../data/crawler-user-agents/programs.txt");
/// Further texts: link previews, clients without a person, health checks, and words in the names of further programs.
const MORE: [&str; 31] = [
    "Akkoma",
    "ApacheBench/",
    "Bot/",
    "Bun/",
    "Cardyb",
    "Crawler",
    "Dart/",
    "Deno/",
    "ELB-HealthChecker/",
    "Faraday v",
    "GoogleHC/",
    "GuzzleHttp/",
    "Java/",
    "Misskey/",
    "Nextcloud",
    "Pleroma",
    "Postman",
    "Preview",
    "Rocket.Chat",
    "Spider",
    "XING-contenttabreceiver",
    "Zulip",
    "bot/",
    "crawler",
    "hackney/",
    "kakaotalk-scrap/",
    "kube-probe/",
    "preview",
    "reqwest/",
    "spider",
    "undici",
];

/// The number of user agents whose verdict is kept. It is a power of two.
const KEPT: usize = 1024;

/// Finds any of the texts. `None` if there were too many of them, which a test excludes.
static TEXTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let texts = known().chain(MORE);
    // An automaton with all transitions takes 7 MiB instead of 0.4.
    let build = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(texts);
    build.ok()
});

fn known() -> impl Iterator<Item = &'static str> {
    LIST.lines().skip(1)
}

/// Builds what finds the texts, on a thread of its own: it takes some milliseconds.
pub(super) fn prepare() {
    spawn_blocking(|| LazyLock::force(&TEXTS).is_some());
}

/// The check of user agents. It keeps the last verdict for each of [`KEPT`] places, as a hash whose lowest bit is the
/// verdict: 50 ns for most requests, which have one of few user agents, instead of 650.
pub(super) struct Programs {
    hashes: RandomState,
    verdicts: Box<[AtomicU64]>,
}

impl Default for Programs {
    fn default() -> Self {
        Self {
            hashes: RandomState::new(),
            verdicts: (0..KEPT).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Programs {
    /// Returns true if a user agent is that of a program. Whoever sends none is one.
    pub(super) fn contain(&self, agent: &[u8]) -> bool {
        if agent.is_empty() {
            return true;
        }
        let hash = self.hashes.hash_one(agent);
        let place = (hash >> 1) as usize % KEPT;
        let kept = self.verdicts[place].load(Ordering::Relaxed);
        // Without the lowest bit, zero is an empty place.
        if kept != 0 && kept | 1 == hash | 1 {
            return kept & 1 == 1;
        }
        let verdict = is_program(agent);
        let kept = (hash & !1) | u64::from(verdict);
        self.verdicts[place].store(kept, Ordering::Relaxed);
        verdict
    }
}

fn is_program(agent: &[u8]) -> bool {
    let texts = TEXTS.as_ref();
    texts.is_some_and(|texts| texts.is_match(agent))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEOPLE: [&str; 10] = [
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "Mozilla/5.0 (Linux; Android 14; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
        "Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36",
        // Browsers within apps.
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/470.0.0;FBBV/1;FBDV/iPhone15,2]",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 340.0.0 (iPhone15,2; iOS 17_6)",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 LinkedInApp/9.30",
    ];

    const PROGRAMS: [&str; 18] = [
        "",
        "curl/8.10.1",
        "Wget/1.24",
        "python-requests/2.32.3",
        "Go-http-client/2.0",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
        "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
        "Twitterbot/1.0",
        "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
        "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
        "TelegramBot (like TwitterBot)",
        "WhatsApp/2.23.20.0",
        "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
        "Mastodon/4.3.0 (http.rb/5.2.0; +https://mastodon.social/)",
        "Mozilla/5.0 (compatible; Bluesky Cardyb/1.1; +mailto:support@bsky.app)",
        "Blackbox Exporter/0.25.0",
        "a-program-that-nobody-knows-bot/0.1",
    ];

    #[test]
    fn people_and_programs_are_told_apart_the_first_time_and_every_other_time() {
        let programs = Programs::default();
        for _ in 0..2 {
            for agent in PEOPLE {
                assert!(!programs.contain(agent.as_bytes()), "{agent}");
            }
            for agent in PROGRAMS {
                assert!(programs.contain(agent.as_bytes()), "{agent}");
            }
        }
    }

    #[test]
    fn more_user_agents_than_verdicts_are_kept_keep_their_own() {
        let programs = Programs::default();
        for _ in 0..2 {
            for number in 0..3 * KEPT {
                let agent = match number % 2 {
                    0 => format!("{} {number}", PEOPLE[0]),
                    _ => format!("curl/{number}"),
                };
                assert_eq!(programs.contain(agent.as_bytes()), number % 2 == 1);
            }
        }
    }

    #[test]
    fn the_list_is_of_the_release_that_its_page_names() {
        let page = include_str!("../../data/crawler-user-agents/README.md");
        let first = LIST.lines().next().unwrap();
        let version = first.strip_prefix("# crawler-user-agents ").unwrap();
        assert!(page.contains(&format!(") {version}, under")), "{version}");
    }

    #[test]
    fn the_texts_fit_and_none_is_empty() {
        assert!(TEXTS.is_some());
        assert!(known().chain(MORE).all(|text| text.len() >= 3));
        assert!(MORE.is_sorted());
    }
}
