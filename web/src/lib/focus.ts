/** As a `ref`: the field that somebody came for has the focus at once (a dialog would begin with its close button). */
export const focused = (element: HTMLElement | null): void => element?.focus();
