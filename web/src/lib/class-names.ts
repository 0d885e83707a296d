/** Class names that hold, in order; false, null and undefined leave nothing. */
export const classes = (...names: (string | false | null | undefined)[]): string => names.filter(Boolean).join(' ');
