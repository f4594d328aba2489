// Where a buyer pays: at an address of the web, or in an app. Nothing here needs a page to be loaded.

// A code of more modules (117 on a side, some 1,200 letters) is too fine for a phone's camera.
const MAX_VERSION = 25;

// Whether the browser itself can go there: to an address, or to a path of this server.
export const isOfTheWeb = (url) => /^(https?:|\/)/i.test(url);

// The modules of the QR code of `text`. `null`: the text is too long, or the library could not be loaded.
export async function qrCodeOf(text) {
  try {
    const { generate } = await import("./vendor/lean-qr.js");
    return generate(text, { maxVersion: MAX_VERSION });
  } catch {
    return null;
  }
}
