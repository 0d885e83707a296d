/**
 * The end of an exhaustive switch: a new case fails to compile here. A server newer than the page gets nothing drawn.
 */
export function unreachable(_value: never): null {
  return null;
}
