/** Line ends of a text that is edited. Pure. */

/** As an editor has them. */
export const withFeeds = (text: string): string => text.replaceAll(/\r\n?/g, '\n');

/** A text with line feeds, as the one before it has its lines ended for the most part. */
export function endedAs(before: string, text: string): string {
  const all = before.split('\n').length - 1;
  const returns = before.split('\r\n').length - 1;
  return returns > all - returns ? text.replaceAll('\n', '\r\n') : text;
}
