/** End of an exhaustive switch: a new case fails to compile. Renders nothing for values of a newer server. */
export function unreachable(_value: never): null {
  return null;
}
