//! QR codes as pictures, drawn row by row.

use std::fmt::Write as _;
use std::io::Write as _;

use fast_qr::{ECL, QRBuilder, QRCode};
use png::{BitDepth, ColorType, Compression, Encoder, EncodingError, Filter};

/// A QR code with a margin of light modules around it.
pub struct QrCode {
    // In a box: it has room for the largest code.
    code: Box<QRCode>,
    margin: usize,
}

impl QrCode {
    /// Returns the QR code of a text, which can still be read with 15 % of it covered; `None` if the text is too long.
    pub fn of(text: &str, margin: usize) -> Option<Self> {
        let code = QRBuilder::new(text).ecl(ECL::M).build().ok()?;
        let code = Box::new(code);
        Some(Self { code, margin })
    }

    /// Returns the modules from edge to edge, which is the size of the smallest picture in pixels.
    pub fn modules(&self) -> usize {
        self.code.size + 2 * self.margin
    }

    /// Draws an SVG picture of this size in pixels.
    pub fn svg(&self, size: usize) -> String {
        let mut dark = String::new();
        for (y, row) in self.rows().enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|one, next| one == next) {
                let (left, top, width) = (x + self.margin, y + self.margin, run.len());
                if run[0] {
                    // Writing to a text does not fail.
                    let _ = write!(dark, "M{left} {top}h{width}v1h-{width}z");
                }
                x += width;
            }
        }
        let edge = self.modules();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size}\" height=\"{size}\" viewBox=\"0 0 {edge} {edge}\" \
            shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h{edge}v{edge}H0z\"/><path d=\"{dark}\"/></svg>\n"
        )
    }

    /// Draws a PNG picture of this size in pixels, which is at least [`Self::modules`]. All modules have the same size, so
    /// the margin takes what is left.
    ///
    /// # Errors
    /// Fails if the picture is too small or too large for the format.
    pub fn png(&self, size: usize) -> Result<Vec<u8>, EncodingError> {
        let pixels = u32::try_from(size).unwrap_or(u32::MAX);
        let mut picture = Vec::new();
        let mut encoder = Encoder::new(&mut picture, pixels, pixels);
        encoder.set_color(ColorType::Grayscale);
        encoder.set_depth(BitDepth::One);
        encoder.set_compression(Compression::Fast);
        // Most rows equal the one above.
        encoder.set_filter(Filter::Up);
        let scale = size / self.modules();
        let start = (size - scale * self.code.size) / 2;
        let end = size - start - scale * self.code.size;
        let light = vec![u8::MAX; size.div_ceil(8)];
        let mut header = encoder.write_header()?;
        let mut writer = header.stream_writer()?;
        for _ in 0..start {
            writer.write_all(&light)?;
        }
        for row in self.rows() {
            let mut pixels = light.clone();
            for (x, _) in row.iter().enumerate().filter(|(_, is_dark)| **is_dark) {
                for pixel in start + x * scale..start + (x + 1) * scale {
                    pixels[pixel / 8] &= !(0x80 >> (pixel % 8));
                }
            }
            for _ in 0..scale {
                writer.write_all(&pixels)?;
            }
        }
        for _ in 0..end {
            writer.write_all(&light)?;
        }
        writer.finish()?;
        header.finish()?;
        Ok(picture)
    }

    /// Returns the rows of modules, without the margin; true is dark.
    fn rows(&self) -> impl Iterator<Item = Vec<bool>> {
        let row = |y: usize| self.code[y].iter().map(|module| module.value()).collect();
        (0..self.code.size).map(row)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rqrr::PreparedImage;

    use super::*;

    /// Reads a picture as a camera would.
    fn decoded(png: &[u8]) -> (usize, String) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(png))
            .read_info()
            .unwrap();
        let size = reader.info().width as usize;
        let mut rows = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut rows).unwrap();
        let length = size.div_ceil(8);
        let is_light = |x: usize, y: usize| rows[y * length + x / 8] & (0x80 >> (x % 8)) != 0;
        let gray = |x, y| if is_light(x, y) { u8::MAX } else { 0 };
        let mut image = PreparedImage::prepare_from_greyscale(size, size, gray);
        let grids = image.detect_grids();
        assert_eq!(grids.len(), 1);
        let (meta, text) = grids[0].decode().unwrap();
        assert_eq!(meta.ecc_level, 0, "the level M");
        (size, text)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_picture_reads_as_its_text(
            host in "[a-z]{1,60}(\\.[a-z]{1,60}){0,3}",
            code in "[A-Za-z0-9_-]{1,64}",
            (margin, more) in (1usize..=10, 0usize..400),
        ) {
            let text = format!("https://{host}/{code}");
            let qr = QrCode::of(&text, margin).unwrap();
            // The decoder needs a few pixels for each module.
            let size = 3 * qr.modules() + more;
            prop_assert_eq!(decoded(&qr.png(size).unwrap()), (size, text));
        }
    }

    #[test]
    fn the_smallest_picture_has_a_pixel_for_each_module_and_the_largest_is_small_in_bytes() {
        let qr = QrCode::of("http://localhost:8080/k7Qm2xB", 0).unwrap();
        assert_eq!(qr.modules(), 29);
        let smallest = qr.png(29).unwrap();
        let reader = png::Decoder::new(std::io::Cursor::new(&smallest))
            .read_info()
            .unwrap();
        assert_eq!((reader.info().width, reader.info().height), (29, 29));
        let largest = qr.png(2048).unwrap();
        assert!(largest.len() < 32 * 1024, "{}", largest.len());
        assert_eq!(decoded(&largest).0, 2048);
    }

    #[test]
    fn an_svg_picture_has_the_modules_of_the_png_picture() {
        let qr = QrCode::of("http://localhost:8080/k7Qm2xB", 2).unwrap();
        let svg = qr.svg(300);
        let head = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"300\" height=\"300\" viewBox=\"0 0 33 33\" ";
        assert!(svg.starts_with(head), "{svg}");
        let (_, path) = svg.rsplit_once(" d=\"").unwrap();
        let runs = path.trim_end().strip_suffix("\"/></svg>").unwrap();
        let mut drawn = vec![vec![false; 33]; 33];
        for run in runs.split_terminator('z') {
            let numbers = run.split(|sign: char| !sign.is_ascii_digit());
            let numbers: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
            let [x, y, width, 1, back] = numbers[..] else {
                panic!("{run}")
            };
            assert_eq!(width, back);
            drawn[y][x..x + width].fill(true);
        }
        let modules: Vec<Vec<bool>> = qr.rows().collect();
        let inner = drawn[2..31].iter().map(|row| row[2..31].to_vec());
        assert_eq!(inner.collect::<Vec<_>>(), modules);
        let dark = |rows: &[Vec<bool>]| rows.iter().flatten().filter(|is_dark| **is_dark).count();
        assert_eq!(dark(&drawn), dark(&modules), "the margin is light");
    }

    #[test]
    fn a_text_that_no_code_holds_has_none() {
        assert!(QrCode::of(&"x".repeat(3000), 4).is_none());
    }
}
