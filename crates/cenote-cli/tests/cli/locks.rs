//! lock, and what stat says of locks.

use std::process::Stdio;
use std::time::Duration;

use super::{Here, kill};

#[test]
fn commands_run_under_locks() {
    let here = Here::new();
    here.ok("create ./p");
    for form in ["spin", "queue", "rw"] {
        assert_eq!(
            here.ok(&format!("lock ./p {form} --form {form} -- echo done")),
            "done\n"
        );
        assert_eq!(
            here.run(&format!("lock ./p {form} --form {form} -- false")).code,
            Some(1)
        );
        let ran = here.json(&format!("lock ./p {form} --form {form} --timeout 5s -- true"));
        assert_eq!((&ran["acquired"], &ran["code"]), (&"clean".into(), &0.into()));
    }
    assert_eq!(here.ok("lock ./p rw --form rw --shared -- echo read"), "read\n");
    let stat = here.json("stat ./p");
    assert_eq!(stat["locks"].as_array().unwrap().len(), 3);
    assert!(stat["locks"][0]["owner"].is_null());
    here.fails(2, "lock ./p spin --shared -- true");
    here.fails(2, "lock ./p spin --timeout soon -- true");
    here.fails(2, "lock ./p spin");
    here.fails(1, "lock ./p spin --form queue -- true");
    here.fails(1, "lock ./p spin -- no-such-command-anywhere");
    here.ok("fsck ./p");
}

#[test]
fn a_killed_holder_is_told_of() {
    for form in ["spin", "queue", "rw"] {
        let here = Here::new();
        here.ok("create ./p");
        let line = format!("lock ./p stock --form {form} -- sleep 1000");
        let mut holder = here
            .command(line.split_whitespace())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let note = loop {
            let locks = &here.json("stat ./p")["locks"];
            match locks[0]["note"].as_u64() {
                None | Some(0) => std::thread::sleep(Duration::from_millis(5)),
                Some(note) => {
                    assert_eq!(locks[0]["owner"]["alive"], true);
                    break note;
                }
            }
        };
        assert!(here.ok("stat ./p").contains("lock"));
        here.fails(1, &format!("lock ./p stock --form {form} --timeout 50ms -- true"));
        here.fails(1, &format!("lock ./p stock --form {form} --timeout 0 -- true"));
        holder.kill().unwrap();
        holder.wait().unwrap();
        kill(note, libc::SIGKILL);
        // stat opens the pool, and so recovers it; the next owner is told all the same.
        let locks = &here.json("stat ./p")["locks"];
        assert_eq!(locks[0]["owner"]["alive"], false);
        let ran = here.json(&format!("lock ./p stock --form {form} -- true"));
        assert_eq!(ran["acquired"]["recovered"]["note"], note);
        assert_eq!(
            here.json(&format!("lock ./p stock --form {form} -- true"))["acquired"],
            "clean"
        );
        here.ok("fsck ./p");
    }
}
