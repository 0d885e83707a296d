/** Who answers where the server has no keys: a name that this browser remembers. */
const PLACE = 'palaver.reviewer';
export const LONGEST_NAME = 100;

export function readReviewer(): string | null {
  return localStorage.getItem(PLACE)?.trim().slice(0, LONGEST_NAME) || null;
}

export function keepReviewer(name: string): void {
  try {
    localStorage.setItem(PLACE, name);
  } catch {
    // Storage may be full or forbidden: the name lasts as long as the page.
  }
}
