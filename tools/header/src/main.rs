//! `cargo run -p header` writes `include/weft.h`; `-- --check` fails when it differs.

use std::{env, fs, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut text = Vec::new();
    let mut builder = cbindgen::Builder::new().with_config(config);
    // Only the boundary is read: what C sees is declared there and nowhere else.
    let mut sources: Vec<_> = fs::read_dir(root.join("src/ffi"))
        .expect("src/ffi")
        .map(|entry| entry.expect("src/ffi").path())
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        // mod.rs would lead cbindgen to every file a second time.
        .filter(|path| !path.ends_with("mod.rs"))
        .collect();
    // types.rs first, then the objects in the order in which a reader meets them.
    let order = ["types", "version", "engine", "queue", "stream", "task", "negotiate"];
    sources.sort_by_key(|path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        order.iter().position(|name| *name == stem).unwrap_or(order.len())
    });
    for source in sources {
        builder = builder.with_src(source);
    }
    builder.generate().expect("cbindgen").write(&mut text);

    let target = root.join("include/weft.h");
    if env::args().any(|arg| arg == "--check") {
        let committed = fs::read(&target).unwrap_or_default();
        if committed != text {
            eprintln!("include/weft.h differs from what src/ffi declares: run `make header`");
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    }
    fs::create_dir_all(target.parent().expect("parent")).expect("include");
    fs::write(&target, text).expect("include/weft.h");
    ExitCode::SUCCESS
}
