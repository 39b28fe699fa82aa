//! Tests of the scripts of backups against a real PostgreSQL, in the image of a stack's database.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use shortener_testing::{database::TestDatabase, servers};
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, query_scalar, raw_sql};
use tokio::task::{JoinHandle, spawn_blocking, yield_now};

const COMMON: &str = include_str!("../core/src/plan/build/backup/common.sh");
const CONNECT: &str = include_str!("../core/src/plan/build/backup/connect.sh");
const DUMP: &str = include_str!("../core/src/plan/build/backup/dump.sh");
const RESTORE: &str = include_str!("../core/src/plan/build/backup/restore.sh");
const VERIFY: &str = include_str!("../core/src/plan/build/backup/verify.sh");
const BEGIN: &str = include_str!("../core/src/plan/build/backup/begin.sh");
const COMPARE: &str = include_str!("../core/src/plan/build/database_move/compare.sh");
const MARK: &str = include_str!("../core/src/plan/build/backup/mark.sh");

/// A table with values whose text depends on settings of a session, and one without rows.
const TABLES: &str = r#"
CREATE TABLE links (code text PRIMARY KEY, url text, created_at timestamptz DEFAULT now(), raw bytea, vector real[], payload json);
CREATE TABLE "Odd ""name" (content text);
CREATE TABLE _sqlx_migrations (version bigint);
CREATE SEQUENCE versions;
INSERT INTO links SELECT 'code' || number, 'https://example.com/' || number, now(), '\x00ff', ARRAY[0.1, 1e-5]::real[], '{"a": 1,  "a": 2}'
  FROM generate_series(1, 2000) AS number;
INSERT INTO links (code) VALUES ('null');
INSERT INTO _sqlx_migrations VALUES (3);
"#;

/// What a backup has beside the dump, and the name of the image.
const MOUNTED: [(&str, &str); 3] = [
    ("STACK_FOLDER", "/backup/mounted"),
    ("SECRETS_FOLDER", "/backup/mounted"),
    ("IMAGE", "postgres:18.6"),
];

/// The end of a script.
struct End {
    succeeded: bool,
    /// Its termination message, or else its log.
    told: String,
}

/// A volume with the backups of a database.
struct Backups {
    folder: PathBuf,
    source: TestDatabase,
}

impl Backups {
    /// Returns an empty volume beside a database in which these statements were run.
    async fn of(statements: &str) -> Self {
        let source = TestDatabase::new().await;
        let name = source.get_database().unwrap().to_owned();
        let folder = std::env::temp_dir().join(format!("backups-{name}"));
        fs::create_dir(&folder).unwrap();
        // The containers have a user of their own.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let backups = Self { folder, source };
        backups.mount();
        backups.execute(statements).await;
        backups
    }

    async fn execute(&self, statements: &str) {
        let mut connection = self.source.connect().await.unwrap();
        let statements = raw_sql(AssertSqlSafe(statements.to_owned()));
        statements.execute(&mut connection).await.unwrap();
    }

    fn url(&self) -> String {
        let (port, name) = (self.source.get_port(), self.source.get_database().unwrap());
        format!("postgres://127.0.0.1:{port}/{name}")
    }

    fn run(&self, script: &str, environment: &[(&str, &str)]) -> End {
        let volume = format!("--volume={}:/backup", self.folder.display());
        run(&volume, script, environment)
    }

    /// Makes a backup and returns its end.
    fn dump(&self, keep: u32) -> End {
        self.dump_as("999:999", keep)
    }

    /// Makes a backup as this user.
    fn dump_as(&self, user: &str, keep: u32) -> End {
        let (url, keep) = (self.url(), keep.to_string());
        let volume = format!("--volume={}:/backup", self.folder.display());
        let environment = [
            ("DATABASE_URL", url.as_str()),
            ("DATABASE_USERNAME", "postgres"),
            ("DATABASE_PASSWORD", "s3cret\n"),
            ("KEEP", keep.as_str()),
            MOUNTED[0],
            MOUNTED[1],
            MOUNTED[2],
        ];
        let options = ["--network=host", &volume, "--user", user];
        run_with(&options, &[COMMON, CONNECT, DUMP].concat(), &environment)
    }

    /// Makes a backup of the server with TLS, with a URL that ends like this and further settings.
    fn dump_over_tls(&self, end: &str, settings: &[(&str, &str)]) -> End {
        let [port] = addresses(&servers::DATABASE_TLS);
        let url = format!("postgres://postgres@localhost:{port}/postgres{end}");
        let environment = [
            ("DATABASE_URL", url.as_str()),
            ("DATABASE_TLS_CERT_FILE", "/backup/mounted/client.crt"),
            ("DATABASE_TLS_KEY_FILE", "/tmp/client.key"),
            ("KEEP", "14"),
            MOUNTED[0],
            MOUNTED[1],
            MOUNTED[2],
        ];
        // Nobody else may read a key.
        let key = "install --mode=600 /backup/mounted/client.key /tmp/client.key\n";
        let script = [key, COMMON, CONNECT, DUMP].concat();
        self.run(&script, &[&environment, settings].concat())
    }

    /// Makes a backup and returns its folder.
    fn made(&self) -> PathBuf {
        next_second();
        let end = self.dump(14);
        assert!(end.succeeded, "{}", end.told);
        let name = end
            .told
            .lines()
            .find_map(|line| line.strip_prefix("backup="));
        self.folder.join(name.unwrap())
    }

    /// Restores the newest backup into an empty database, and compares it.
    async fn restore(&self) -> End {
        self.restore_and("").await
    }

    /// Restores the newest backup into an empty database, and runs these commands there.
    async fn restore_and(&self, more: &str) -> End {
        let copy = TestDatabase::new().await;
        let (port, name) = (copy.get_port().to_string(), copy.get_database().unwrap());
        let script = [COMMON, RESTORE, VERIFY, more].concat();
        self.run(
            &script,
            &[
                ("PGHOST", "127.0.0.1"),
                ("PGPORT", &port),
                ("PGUSER", "postgres"),
                ("PGDATABASE", name),
                ("BACKUP_WORK", "/backup"),
            ],
        )
    }

    /// Compares the database with a copy.
    fn compare(&self, copy: &TestDatabase) -> End {
        let port = self.source.get_port().to_string();
        let copy = format!(
            "postgres://127.0.0.1:{}/{}",
            copy.get_port(),
            copy.get_database().unwrap()
        );
        self.run(
            &[COMMON, CONNECT, COMPARE].concat(),
            &[
                ("MANAGED_HOST", "127.0.0.1"),
                ("MANAGED_PORT", &port),
                ("MANAGED_DATABASE", self.source.get_database().unwrap()),
                ("MANAGED_USERNAME", "postgres"),
                ("MANAGED_PASSWORD", "s3cret"),
                ("DATABASE_URL", &copy),
                ("DATABASE_USERNAME", "postgres"),
                ("DATABASE_PASSWORD", "s3cret"),
                ("DIFFERS", "10"),
            ],
        )
    }

    fn mark(&self) -> End {
        self.run(&[COMMON, MARK].concat(), &[("BACKUP_WORK", "/backup")])
    }

    /// Returns the names of the backups, and of their parts.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        let folders = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir());
        let names = folders.map(|path| name(&path));
        let mut names: Vec<String> = names.filter(|name| name.starts_with('2')).collect();
        names.sort();
        names
    }

    /// Writes what the operator mounts beside the database.
    fn mount(&self) {
        let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: acme-job-ids\n";
        let secrets = self.folder.join("mounted/acme-job-ids");
        fs::create_dir_all(&secrets).unwrap();
        fs::write(self.folder.join("mounted/acme-job-ids.secret.yaml"), secret).unwrap();
        fs::write(
            self.folder.join("mounted/stack.yaml"),
            "kind: ShortenerStack\n",
        )
        .unwrap();
        fs::write(secrets.join("key"), b"\x00key\n").unwrap();
        // The name of a client that YAML may take for a truth value.
        fs::write(secrets.join("no"), "1").unwrap();
    }

    /// Changes a file as the user of the containers, who alone may.
    fn alter(&self, command: &str) {
        let end = self.run(command, &[]);
        assert!(end.succeeded, "{}", end.told);
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.folder.join("mounted"));
        let removed = run(
            &format!("--volume={}:/backup", self.folder.display()),
            "rm -rf /backup/* /backup/.lock",
            &[],
        );
        let _ = fs::remove_dir(&self.folder);
        assert!(removed.succeeded || thread::panicking(), "{}", removed.told);
    }
}

fn addresses<const N: usize>(server: &'static servers::Server<N>) -> &'static [String; N] {
    server.addresses().unwrap_or_else(|error| panic!("{error}"))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Runs a script in the image of the database, with this volume.
fn run(volume: &str, script: &str, environment: &[(&str, &str)]) -> End {
    run_with(&["--network=host", volume], script, environment)
}

fn run_with(options: &[&str], script: &str, environment: &[(&str, &str)]) -> End {
    let variables = environment
        .iter()
        .map(|(name, value)| format!("--env={name}={value}"));
    let variables: Vec<String> = variables.collect();
    let mut options = options.to_vec();
    options.push("--env=BACKUP_RESULT=/dev/stdout");
    options.extend(variables.iter().map(String::as_str));
    let program = ["bash", "-euo", "pipefail", "-c", script];
    let mut command =
        servers::in_image_of_database(&options, &program).unwrap_or_else(|error| panic!("{error}"));
    let output = command.output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    End {
        succeeded: output.status.success(),
        told: String::from_utf8(told).unwrap(),
    }
}

/// Waits until the next second: a backup has the name of the second in which it began.
fn next_second() {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    thread::sleep(Duration::from_nanos(u64::from(
        1_000_000_000 - now.subsec_nanos(),
    )));
}

fn manifest(backup: &Backups, folder: &Path) -> Value {
    let script = format!("cat /backup/{}/manifest.json", name(folder));
    let end = backup.run(&script, &[]);
    serde_json::from_str(&end.told).unwrap()
}

#[tokio::test]
async fn a_copy_is_the_same_or_the_tables_that_differ_are_named() {
    let content = "CREATE TABLE links (code text, at timestamptz); CREATE TABLE empty (code text);
        INSERT INTO links VALUES ('a', '2026-01-01'), ('b', NULL), ('c', NULL)";
    let managed = Backups::of(content).await;
    let copy = Backups::of(content).await;
    let same = managed.compare(&copy.source);
    assert!(same.succeeded, "{}", same.told);
    copy.execute("DELETE FROM links WHERE code = 'b'; DROP TABLE empty")
        .await;
    let differs = managed.compare(&copy.source);
    assert!(!differs.succeeded);
    for table in ["table empty: {\"rows\": 0", "table links: {\"rows\": 3"] {
        assert!(differs.told.contains(table), "{}", differs.told);
    }
}

#[tokio::test]
async fn a_backup_is_restored_with_every_row() {
    let backups = Backups::of(TABLES).await;
    let folder = backups.made();
    let manifest = manifest(&backups, &folder);
    assert_eq!(manifest["tables"]["links"]["rows"], 2001);
    assert_eq!(manifest["tables"]["Odd \"name"]["rows"], 0);
    assert_eq!(manifest["schemaVersion"], 3);
    assert_eq!(manifest["image"], "postgres:18.6");
    let end = backups.run(&format!("cat /backup/{}/*.yaml", name(&folder)), &[]);
    let secret = "kind: Secret\nmetadata:\n  name: acme-job-ids\ndata:\n  \"key\": \"AGtleQo=\"\n  \"no\": \"MQ==\"\n---\n";
    assert!(
        end.told.contains(secret) && end.told.contains("ShortenerStack"),
        "{}",
        end.told
    );
    let end = backups.restore().await;
    assert!(end.succeeded, "{}", end.told);
    assert!(
        end.told.contains(&format!("backup={}", name(&folder))),
        "{}",
        end.told
    );
}

#[tokio::test]
async fn backups_of_another_database_stay_and_are_not_mixed_with_new_ones() {
    let identified = "CREATE TABLE database_identity AS SELECT gen_random_uuid() AS id";
    let backups = Backups::of(identified).await;
    let first = name(&backups.made());
    let made = manifest(&backups, &backups.folder.join(&first));
    assert_eq!(made["identity"].as_str().unwrap().len(), 36);
    let second = name(&backups.made());
    // A new database, as after a stack that was made again without its volume.
    backups
        .execute("UPDATE database_identity SET id = gen_random_uuid()")
        .await;
    next_second();
    let end = backups.dump(1);
    assert!(
        !end.succeeded && end.told.contains("another database"),
        "{}",
        end.told
    );
    assert_eq!(backups.names(), [first.clone(), second.clone()]);
    // Before its first migration, a database has no identity.
    backups.alter(&format!(
        "sed -i 's/\"identity\": .*,/\"identity\": \"\",/' /backup/{second}/manifest.json"
    ));
    next_second();
    let end = backups.dump(1);
    assert!(end.succeeded, "{}", end.told);
    let left = backups.names();
    assert_eq!((left.len(), &left[0]), (2, &first), "{left:?}");
}

#[tokio::test]
async fn an_empty_database_passes_and_so_does_a_volume_without_backups() {
    let backups = Backups::of("SELECT 1").await;
    let end = backups.restore().await;
    assert!(
        end.succeeded && end.told.contains("no finished backup"),
        "{}",
        end.told
    );
    assert!(backups.mark().succeeded);
    let folder = backups.made();
    let manifest = manifest(&backups, &folder);
    assert_eq!(
        (&manifest["tables"], &manifest["schemaVersion"]),
        (&Value::Object(Default::default()), &Value::from(0))
    );
    let end = backups.restore().await;
    assert!(end.succeeded, "{}", end.told);
}

#[tokio::test]
async fn dump_and_manifest_are_of_one_moment_while_clients_write() {
    let backups = Backups::of(TABLES).await;
    let mut connection = backups.source.connect().await.unwrap();
    let writer = tokio::spawn(async move {
        for number in 0.. {
            let insert = format!(
                "INSERT INTO links (code) VALUES ('new{number}'); DELETE FROM links WHERE code = 'code{number}'"
            );
            let insert = raw_sql(AssertSqlSafe(insert)).execute(&mut connection);
            if insert.await.is_err() {
                return;
            }
        }
    });
    let backups = tokio::task::spawn_blocking(move || {
        backups.made();
        backups
    });
    let backups = backups.await.unwrap();
    writer.abort();
    let end = backups.restore().await;
    assert!(end.succeeded, "{}", end.told);
}

#[tokio::test]
async fn a_dump_that_was_cut_is_found_with_and_without_its_checksum() {
    let backups = Backups::of(TABLES).await;
    let folder = format!("/backup/{}", name(&backups.made()));
    backups.alter(&format!("truncate --size=-100 {folder}/links.dump"));
    let end = backups.restore().await;
    assert!(
        !end.succeeded
            && end
                .told
                .contains("error: links.dump is not as it was written"),
        "{}",
        end.told
    );
    backups.alter(&with_checksum(&folder));
    let end = backups.restore().await;
    assert!(
        !end.succeeded && end.told.contains("pg_restore: error:"),
        "{}",
        end.told
    );
}

/// Returns a script that makes the manifest of a folder name the dump as it is.
fn with_checksum(folder: &str) -> String {
    format!(
        r#"sum=$(sha256sum <{folder}/links.dump | cut --delimiter=' ' --fields=1)
        sed --in-place "s/\"sha256\": \"[0-9a-f]*\"/\"sha256\": \"$sum\"/" {folder}/manifest.json"#
    )
}

#[tokio::test]
async fn a_row_that_differs_and_a_table_that_is_missing_are_named() {
    let backups = Backups::of(TABLES).await;
    let before = format!("/backup/{}", name(&backups.made()));
    for (change, told) in [
        (
            "UPDATE links SET url = 'https://example.org' WHERE code = 'code7'",
            "error: table links:",
        ),
        (r#"DROP TABLE "Odd ""name""#, "nothing after the restore"),
    ] {
        backups.execute(change).await;
        let after = format!("/backup/{}", name(&backups.made()));
        backups.alter(&format!("cp {before}/manifest.json {after}"));
        backups.alter(&with_checksum(&after));
        let end = backups.restore().await;
        assert!(!end.succeeded && end.told.contains(told), "{}", end.told);
    }
}

#[tokio::test]
async fn a_full_volume_is_named_and_leaves_nothing_behind() {
    let backups = Backups::of(TABLES).await;
    let url = backups.url();
    let environment = [
        ("DATABASE_URL", url.as_str()),
        ("DATABASE_USERNAME", "postgres"),
        ("KEEP", "1"),
        ("BACKUP_FOLDER", "/full"),
        MOUNTED[0],
        MOUNTED[1],
        MOUNTED[2],
    ];
    let script = format!(
        "trap 'ls /full' EXIT\n({})",
        [COMMON, CONNECT, DUMP].concat()
    );
    let volume = format!("--volume={}:/backup", backups.folder.display());
    let full = "--tmpfs=/full:size=16k,mode=1777";
    let end = run_with(&["--network=host", &volume, full], &script, &environment);
    assert!(
        !end.succeeded && end.told.contains("No space left on device"),
        "{}",
        end.told
    );
    assert!(!end.told.contains(".part\n"), "{}", end.told);
}

#[tokio::test]
async fn a_database_that_refuses_the_login_is_named() {
    let backups = Backups::of("SELECT 1").await;
    let url = backups
        .url()
        .replace("127.0.0.1", "nobody:p%40ss%2Fword@127.0.0.1");
    let environment = [
        ("DATABASE_URL", url.as_str()),
        ("KEEP", "1"),
        MOUNTED[0],
        MOUNTED[1],
        MOUNTED[2],
    ];
    let end = backups.run(&[COMMON, CONNECT, DUMP].concat(), &environment);
    let told = "role \"nobody\" does not exist";
    assert!(!end.succeeded && end.told.contains(told), "{}", end.told);
    assert_eq!(backups.names(), [] as [String; 0]);
}

#[tokio::test]
async fn the_newest_backups_are_kept_and_the_newest_one_that_was_verified() {
    let backups = Backups::of(TABLES).await;
    let first = name(&backups.made());
    assert!(backups.restore().await.succeeded);
    let end = backups.mark();
    assert_eq!(end.told, format!("backup={first}\n"));
    let second = name(&backups.made());
    let keep = |keep| {
        next_second();
        let end = backups.dump(keep);
        assert!(end.succeeded, "{}", end.told);
        end.told
            .lines()
            .find_map(|line| line.strip_prefix("backup="))
            .unwrap()
            .to_owned()
    };
    let third = keep(2);
    assert_eq!(
        backups.names(),
        [&first, &second, &third].map(String::as_str)
    );
    let fourth = keep(1);
    assert_eq!(backups.names(), [&first, &fourth].map(String::as_str));
    assert!(backups.restore().await.succeeded);
    assert!(backups.mark().succeeded);
    let fifth = keep(1);
    assert_eq!(backups.names(), [&fourth, &fifth].map(String::as_str));
}

#[tokio::test]
async fn what_an_interrupted_run_left_is_removed() {
    let backups = Backups::of(TABLES).await;
    backups.alter(
        "mkdir /backup/20261128T041700Z.part && touch /backup/20261128T041700Z.part/links.dump",
    );
    let name = name(&backups.made());
    assert_eq!(backups.names(), [name]);
}

/// Starts the server of a new database, beside its folder, as a stack does, and ends it.
const START: &str = r#"
export PGDATA=/backup/data/pgdata
docker-entrypoint.sh postgres -c listen_addresses=127.0.0.1 -c port=$PORT >/dev/null 2>&1 &
server=$!
until pg_isready --quiet --host 127.0.0.1 --port "$PORT"; do sleep 0.2; done
psql --host 127.0.0.1 --port "$PORT" --username links --no-psqlrc --tuples-only --no-align --command 'SELECT count(*) FROM links' links
kill -INT "$server"
wait "$server"
"#;

#[tokio::test]
async fn a_new_database_begins_with_a_backup_and_never_a_second_time() {
    let backups = Backups::of(TABLES).await;
    let begin = |settings: &[(&str, &str)]| {
        let own = [
            ("DATA_FOLDER", "/backup/data"),
            ("POSTGRES_USER", "links"),
            ("POSTGRES_DB", "links"),
            ("POSTGRES_PASSWORD", "s3cret"),
            ("RESTORE_PLACE", "the claim old"),
        ];
        // A network of its own, because the server listens on its usual port.
        let script = [COMMON, RESTORE, BEGIN].concat();
        run_alone(&backups.folder, &script, &[&own, settings].concat())
    };
    backups.alter("mkdir /backup/data");
    let end = begin(&[]);
    assert!(
        !end.succeeded && end.told.contains("no finished backup"),
        "{}",
        end.told
    );
    let first = name(&backups.made());
    backups
        .execute("DELETE FROM links WHERE code = 'null'")
        .await;
    let second = name(&backups.made());
    let end = begin(&[("RESTORE_BACKUP", "20200101T000000Z")]);
    assert!(!end.succeeded && end.told.contains(&second), "{}", end.told);
    // What an interrupted start left does not matter.
    backups.alter("mkdir -p /backup/data/restoring && touch /backup/data/restoring/PG_VERSION");
    let end = begin(&[("RESTORE_BACKUP", &first)]);
    assert!(end.succeeded, "{}", end.told);
    let links = |backups: &Backups| run_alone(&backups.folder, START, &[("PORT", "5499")]).told;
    assert_eq!(links(&backups), "2001\n");
    let again = begin(&[]);
    assert!(
        again.succeeded && again.told.contains(&format!("{first} before")),
        "{}",
        again.told
    );
    let other = begin(&[("RESTORE_BACKUP", &second)]);
    assert!(
        !other.succeeded
            && other
                .told
                .contains(&format!("{first} of the claim old before")),
        "{}",
        other.told
    );
    let elsewhere = begin(&[("RESTORE_PLACE", "the claim other")]);
    let told = &elsewhere.told;
    assert!(
        !elsewhere.succeeded && told.contains("of the claim old before"),
        "{told}"
    );
    backups.alter("rm /backup/data/pgdata/restored");
    let end = begin(&[]);
    assert!(
        !end.succeeded && end.told.contains("has data already"),
        "{}",
        end.told
    );
    assert_eq!(links(&backups), "2001\n");
}

#[tokio::test]
async fn tables_of_another_schema_are_restored_to_where_the_programs_look() {
    let backups = Backups::of(&in_another_schema(TABLES)).await;
    let folder = backups.made();
    assert_eq!(manifest(&backups, &folder)["schema"], "My links");
    let end = backups
        .restore_and("\nsql <<<'SELECT count(*) FROM links' >&2")
        .await;
    assert!(end.succeeded && end.told.contains("2001\n"), "{}", end.told);
}

/// Returns the statements that put these tables into another schema than `public`, which the search_path of all clients names.
fn in_another_schema(tables: &str) -> String {
    format!(
        r#"CREATE SCHEMA "My links";
        DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = "My links"', current_database()); END $$;
        SET search_path = "My links";
        {tables}"#
    )
}

#[tokio::test]
async fn tables_of_an_extension_are_no_part_of_a_backup() {
    let tables = "CREATE TABLE links (code text); CREATE TABLE spatial_ref_sys (srid int); \
        INSERT INTO spatial_ref_sys VALUES (1); ALTER EXTENSION plpgsql ADD TABLE spatial_ref_sys";
    let backups = Backups::of(tables).await;
    let folder = backups.made();
    let manifest = manifest(&backups, &folder);
    let tables = manifest["tables"].as_object().unwrap();
    assert_eq!(tables.len(), 1, "{tables:?}");
    let end = backups.restore().await;
    assert!(end.succeeded, "{}", end.told);
}

#[tokio::test]
async fn another_user_of_the_group_restores_a_backup_and_makes_the_next_one() {
    let backups = Backups::of(TABLES).await;
    let end = backups.dump_as("10001:999", 1);
    assert!(end.succeeded, "{}", end.told);
    let first = backups.names();
    let end = backups.restore().await;
    let told = format!("backup={}", first[0]);
    assert!(end.succeeded && end.told.contains(&told), "{}", end.told);
    next_second();
    let end = backups.dump(1);
    assert!(end.succeeded, "{}", end.told);
    let left = backups.names();
    assert!(left.len() == 1 && left != first, "{left:?}");
}

/// Begins a backup of tables while a session keeps one of them, `kept`. Returns that session and the backup once that waits
/// for it.
async fn begun(backups: &Arc<Backups>) -> (PgConnection, JoinHandle<PathBuf>) {
    let mut keeper = backups.source.connect().await.unwrap();
    let keep = "BEGIN; LOCK TABLE kept";
    raw_sql(keep).execute(&mut keeper).await.unwrap();
    let backup = spawn_blocking({
        let backups = Arc::clone(backups);
        move || backups.made()
    });
    waits(backups, "kept", || !backup.is_finished()).await;
    (keeper, backup)
}

/// Waits until a session waits for a table, as long as one may.
async fn waits(backups: &Backups, table: &str, may: impl Fn() -> bool) {
    let query =
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = to_regclass($1) AND NOT granted)";
    let mut watch = backups.source.connect().await.unwrap();
    loop {
        let question = query_scalar(query).bind(table);
        let waits: bool = question.fetch_one(&mut watch).await.unwrap();
        if waits {
            return;
        }
        assert!(may(), "nobody waits for {table}");
        yield_now().await;
    }
}

/// Two tables, of which a test keeps the second.
const KEPT: &str =
    "CREATE TABLE links (code text); INSERT INTO links VALUES ('a'); CREATE TABLE kept (code text)";

#[tokio::test]
async fn a_migration_that_waits_for_a_backup_changes_nothing_of_it() {
    let backups = Arc::new(Backups::of(KEPT).await);
    let (mut keeper, backup) = begun(&backups).await;
    let mut migration = backups.source.connect().await.unwrap();
    let migrated = tokio::spawn(async move {
        // An attempt of `app migrate` gives up soon, because others wait behind it.
        let add = "SET lock_timeout = '200ms'; ALTER TABLE links ADD COLUMN note text DEFAULT ''";
        while raw_sql(add).execute(&mut migration).await.is_err() {}
    });
    waits(&backups, "links", || !migrated.is_finished()).await;
    raw_sql("COMMIT").execute(&mut keeper).await.unwrap();
    backup.await.unwrap();
    migrated.await.unwrap();
    let end = backups.restore().await;
    assert!(end.succeeded, "{}", end.told);
}

/// Returns the hundredths of a second until the connection from a port of this machine is checked, once all that it sent has
/// arrived.
async fn silence(port: i32) -> u64 {
    let own = format!("0100007F:{port:04X}");
    loop {
        let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
        let mut sockets = sockets
            .lines()
            .map(|socket| socket.split_whitespace().collect::<Vec<_>>());
        let socket = sockets.find(|socket| socket[1] == own).unwrap();
        match socket[5].split_once(':').unwrap() {
            ("02", left) => return u64::from_str_radix(left, 16).unwrap(),
            (timer, _) => assert_ne!(timer, "00", "nothing checks the connection"),
        }
        yield_now().await;
    }
}

#[tokio::test]
async fn no_connection_of_a_backup_is_silent_for_longer_than_30_seconds() {
    let backups = Arc::new(Backups::of(KEPT).await);
    let (mut keeper, backup) = begun(&backups).await;
    let ports = "SELECT client_port FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'shortener-backup'";
    let ports: Vec<i32> = query_scalar(ports).fetch_all(&mut keeper).await.unwrap();
    assert!(!ports.is_empty());
    for port in ports {
        assert!(silence(port).await <= 30 * 100);
    }
    raw_sql("COMMIT").execute(&mut keeper).await.unwrap();
    backup.await.unwrap();
}

#[tokio::test]
async fn a_dump_travels_as_the_settings_of_tls_say() {
    let backups = Backups::of("SELECT 1").await;
    let [certificates] = addresses(&servers::CERTIFICATES);
    for file in ["ca.crt", "other-ca.crt", "client.crt", "client.key"] {
        let from = Path::new(certificates).join(file);
        fs::copy(from, backups.folder.join("mounted").join(file)).unwrap();
    }
    let [authority, other] =
        ["ca.crt", "other-ca.crt"].map(|file| format!("/backup/mounted/{file}"));
    let [authority, other] = [authority.as_str(), other.as_str()];
    let mode = |mode| ("DATABASE_TLS_MODE", mode);
    let own = |file| ("DATABASE_TLS_CA_FILE", file);
    let public = |file| ("AUTHORITIES", file);
    // The server takes no connection without TLS.
    for (end, settings, told) in [
        (
            "?sslmode=disable",
            vec![mode("verify-full"), own(authority)],
            None,
        ),
        ("?sslmode=disable", vec![], Some("no encryption")),
        ("", vec![mode("verify-full"), public(authority)], None),
        (
            "",
            vec![mode("verify-ca"), public(other), own(authority)],
            None,
        ),
        (
            "",
            vec![mode("verify-full"), public(other)],
            Some("certificate verify failed"),
        ),
        ("", vec![mode("require"), own(other)], None),
        ("?sslmode=verify-full", vec![public(authority)], None),
        (
            "?sslmode=verify-full",
            vec![public(other)],
            Some("certificate verify failed"),
        ),
    ] {
        next_second();
        let made = backups.dump_over_tls(end, &settings);
        let case = format!("{end} {settings:?}: {}", made.told);
        assert_eq!(made.succeeded, told.is_none(), "{case}");
        assert!(told.is_none_or(|told| made.told.contains(told)), "{case}");
    }
}

#[test]
fn a_url_says_the_same_to_the_programs_of_postgresql_as_to_the_app() {
    let show = "connect; env | grep ^PG | grep -v -e ^PGDATA= -e ^PG_ -e ^PGAPPNAME= -e ^PGCONNECT_TIMEOUT= | sort";
    let script = [COMMON, CONNECT, show].concat();
    let settings = |environment: &[(&str, &str)]| {
        let end = run_with(&["--network=none"], &script, environment);
        end.told.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (url, expected) in [
        (
            "postgres://app:p%40s%2Fs@[::1]:5433/li%6Eks?sslmode=Require&statement-cache-capacity=0&schema=x",
            vec![
                "PGDATABASE=links",
                "PGHOST=::1",
                "PGPASSWORD=p@s/s",
                "PGPORT=5433",
                "PGSSLMODE=require",
                "PGUSER=app",
            ],
        ),
        (
            "postgresql:///links?host=/run/pg&user=a&password=p%26&options=-c+a%3Db&options[search_path]=x",
            vec![
                "PGDATABASE=links",
                "PGHOST=/run/pg",
                "PGOPTIONS= -c a=b -c search_path=x",
                "PGPASSWORD=p&",
                "PGUSER=a",
            ],
        ),
        (
            "postgres://a@b:c@db.test\n",
            vec!["PGHOST=db.test", "PGPASSWORD=c", "PGUSER=a@b"],
        ),
        (
            "postgres://db.test:1,other:2/x",
            vec!["error: the URL of the database is invalid"],
        ),
    ] {
        assert_eq!(settings(&[("DATABASE_URL", url)]), expected, "{url}");
    }
}

/// Returns the script of a page that restores a dump into a running database.
fn restore_of_the_page() -> String {
    let page = include_str!("../../docs/backup.md");
    let (_, script) = page.split_once("-- sh -c '{\n").unwrap();
    let (script, _) = script.split_once("' <links.dump").unwrap();
    format!("{{\n{script}")
}

/// Restores a dump into the running database as the page does, and returns what decides.
fn restore_by_the_page(backups: &Backups, dump: &str) -> String {
    // The notices are on standard error.
    let script = format!(
        "({}) <{dump} 2>/dev/null | tail -n 1",
        restore_of_the_page()
    );
    let port = backups.source.get_port().to_string();
    let environment = [
        ("PGHOST", "127.0.0.1"),
        ("PGPORT", port.as_str()),
        ("POSTGRES_USER", "postgres"),
        ("POSTGRES_DB", backups.source.get_database().unwrap()),
    ];
    backups.run(&script, &environment).told
}

#[tokio::test]
async fn the_page_refuses_a_dump_of_another_schema() {
    let backups = Backups::of(&in_another_schema(TABLES)).await;
    let dump = format!("/backup/{}/links.dump", name(&backups.made()));
    backups
        .execute("CREATE TABLE public.links (code text)")
        .await;
    let told = restore_by_the_page(&backups, &dump);
    assert!(!told.ends_with("COMMIT\n"), "{told}");
    backups.execute("SELECT FROM public.links").await;
}

#[tokio::test]
async fn the_page_restores_an_older_dump_in_place_of_everything_or_changes_nothing() {
    let backups = Backups::of(TABLES).await;
    let dump = format!("/backup/{}/links.dump", name(&backups.made()));
    // A newer release has another table, and the link of after the dump.
    backups
        .execute("CREATE TABLE audit_log (id bigint); INSERT INTO links (code) VALUES ('after')")
        .await;
    let after =
        "SELECT count(*) FROM audit_log; SELECT 1 / count(*) FROM links WHERE code = 'after'";
    backups.alter(&format!("head --bytes=-100 {dump} >/backup/cut.dump"));
    let told = restore_by_the_page(&backups, "/backup/cut.dump");
    assert!(!told.ends_with("COMMIT\n"), "{told}");
    backups.execute(after).await;
    let told = restore_by_the_page(&backups, &dump);
    assert!(told.ends_with("COMMIT\n"), "{told}");
    let before = "CREATE TABLE audit_log (id bigint); SELECT 1 / (count(*) - 2000) FROM links; \
        SELECT 1 / (1 - count(*)) FROM links WHERE code = 'after'";
    backups.execute(before).await;
}

/// Runs a script like [`run`], without the network of this machine.
fn run_alone(folder: &Path, script: &str, environment: &[(&str, &str)]) -> End {
    let volume = format!("--volume={}:/backup", folder.display());
    run_with(&["--network=none", &volume], script, environment)
}
