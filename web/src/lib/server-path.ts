/** Where the server lives below its host, and the nonce of this page's answer: both told by index.html. */
export const ROOT: string = document.querySelector<HTMLMetaElement>('meta[name=palaver-root]')?.content ?? '';

export const NONCE: string | undefined =
  document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce || undefined;

/** A path of the server as this page must ask for it. */
export const rooted = (path: string): string => `${ROOT}${path}`;
