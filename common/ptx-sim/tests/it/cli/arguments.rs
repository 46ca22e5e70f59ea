//! Tests of arguments that are no plain lists: structs, variables, textures, tensor maps.

use super::{case_of, command, fails, prints, ptx_sim};

#[test]
fn structs_variables_and_addresses_are_arguments() {
    // float* at 0, unsigned char at 8, int at 12, double at 16
    let view = "struct:ptr:x+4/u8:1/s32:3/f64:0.5";
    prints(
        &format!("run session.ptx --kernel scaled --block 4 --buffer x=in:f32:1,2,3,4,5,6 {view} out:f32:4"),
        "1.5,2,2.5,0\n",
    );
    let weigh = "run session.ptx --kernel weigh --block 4 --set weights=f32:1,10,100,1000";
    prints(&format!("{weigh} in:f32:1,2,3,4 out:f32:4 ptr:null"), "1,20,300,4000\n");
    // one buffer for three parameters, and an offset into it
    prints(&format!("{weigh} x=inout:f32:1,2,3,4,5 ptr:x ptr:x"), "2,22,303,4004,5\n");
    let one = weigh.replace("--block 4", "--block 1");
    prints(&format!("{one} x=inout:f32:1,2,3,4,5 ptr:x+4 ptr:null"), "1,1,3,4,5\n");
}

#[test]
fn buffers_and_variables_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let shown = |name: &str| file(name).display().to_string();
    let mut command =
        command("run session.ptx --kernel weigh --block 4 --set weights=f32:1,1,1,1 in:f32:1,2,3,4 out:f32:4 ptr:null");
    for saved in ["2", "total"] {
        command.args(["--save", &format!("{saved}={}", shown(saved))]);
    }
    assert!(command.output().unwrap().status.success());
    assert_eq!(std::fs::read(file("2")).unwrap(), [1f32, 2., 3., 4.].map(f32::to_le_bytes).concat());
    assert_eq!(std::fs::read(file("total")).unwrap(), 4i32.to_le_bytes());
}

#[test]
fn kernels_are_called_by_their_names_in_the_source() {
    prints("run session.ptx --kernel fill<int> --block 2 out:s32:2 s32:7", "7,7\n");
    prints("run session.ptx --kernel _Z4fillIfEvPT_S0_ --block 2 out:f32:2 f32:7", "7,7\n");
    let (_, stdout, _) = ptx_sim("check session.ptx");
    assert!(stdout.contains("= scaled(View, float*)"), "{stdout}");
}

#[test]
fn textures_and_surfaces_are_arguments() {
    const PAINT: &str = "run textures.ptx --block 3";
    prints(&format!("{PAINT} tex:3x2:f32:1,2,3,4,5,6 surf:3x2:f32:0,0,0,0,0,0 u32:1"), "0,0,0,4,5,6\n");
    prints(
        &format!("{PAINT} tex:2x2/mirror/normalised-float:u8:0,51,102,255 canvas=surf:3x1:f32:0,0,0 u32:0"),
        "0,0.2,0.2\n",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("canvas.bin");
    prints(&format!("{PAINT} tex:1x1:f32:7 surf:3x1:f32:0,0,0 u32:0 --save 2={}", file.display()), "7,7,7\n");
    assert_eq!(std::fs::read(&file).unwrap(), 7f32.to_le_bytes().repeat(3));
    for (args, status, reason) in [
        ("tex:3x2:f32:1 surf:3x2:f32:0,0,0,0,0,0 u32:0", 2, "4 bytes for `argument 1`, which has 24"),
        ("tex:3x2/linear:u32:1,2,3,4,5,6 surf:1:f32:0 u32:0", 2, "only floats"),
        ("tex:3/wrap:f32 surf:1:f32:0 u32:0", 2, "a texture is tex:EXTENT"),
        ("tex:1x1:f32:7 surf:2x1:f32:0,0 u32:0", 1, "4 bytes at byte 8 of row 0 of the surface `argument 2`"),
        ("u64:5 surf:3x1:f32:0,0,0 u32:0", 1, "0x5 is no handle of a texture or surface"),
        ("a=tex:1x1:f32:7 ptr:a+4 u32:0", 2, "nothing lies behind its handle"),
    ] {
        fails(&format!("{PAINT} {args}"), status, reason);
    }
}

/// A tensor of 6 × 3 floats, in rows of 8.
const TILES: &str = r#"
    print = ["out"]
    [buffer.x]
    type = "f32"
    values = [0, 1, 2, 3, 4, 5, -1, -1, 10, 11, 12, 13, 14, 15, -1, -1, 20, 21, 22, 23, 24, 25, -1, -1]
    [buffer.out]
    type = "f32"
    unwritten = 8
    [tensormap.rows]
    buffer = "x"
    type = "f32"
    extents = [6, 3]
    strides = [32]
    box = [4, 2]
    [[launch]]
    args = ["tmap:rows", "s32:4", "s32:1", "ptr:out"]
    [[compare]]
    buffer = "out"
    values = [14, 15, 0, 0, 24, 25, 0, 0]
"#;

#[test]
fn tensor_maps_are_arguments() {
    let run = "run tiles.ptx --buffer x=in:f32:0,1,2,3,4,5,-1,-1,10,11,12,13,14,15,-1,-1,20,21,22,23,24,25,-1,-1";
    let tensor = "tmap:x/f32/6x3/strides=32/box=4x2";
    for order in ["late", "early", "seed=5"] {
        let args = format!("{run} --async {order} --sanitize {tensor} s32:4 s32:1 out:f32:8");
        prints(&args, "14,15,0,0,24,25,0,0\n");
    }
    prints(&format!("{run} {tensor}/nan s32:4 s32:1 out:f32:8"), "14,15,nan,nan,24,25,nan,nan\n");
    fails(&format!("{run} {tensor}/swizzle=16 s32:0 s32:0 out:f32:8"), 2, "32, 64 or 128");
    fails(&format!("{run} tmap:x+4/f32/4x3/strides=32/box=4x2 s32:0 s32:0 out:f32:8"), 2, "not a multiple of 16");
    fails(&format!("{run} tmap:tiles s32:0 s32:0 out:f32:8"), 2, "no tensor map `tiles`");
    fails(&format!("{run} --async soon {tensor} s32:0 s32:0 out:f32:8"), 2, "late, early or seed=N");
    let (status, stdout, stderr) = case_of("tiles.ptx", TILES, "--sanitize --async early");
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("out = 14,15,0,0,24,25,0,0\n"), "{stdout}");
    for (from, to, reason) in [
        ("box = [4, 2]", "box = [4]", "1 sizes of the box"),
        ("box = [4, 2]", "pixels = 4", "lower, upper, channels and pixels"),
        ("buffer = \"x\"", "buffer = \"z\"", "no buffer or variable `z`"),
        ("tmap:rows", "tmap:columns", "no tensor map `columns`"),
    ] {
        let (status, _, stderr) = case_of("tiles.ptx", &TILES.replacen(from, to, 1), "");
        assert!(status == 2 && stderr.contains(reason), "{to}: {status}: {stderr}");
    }
}
