/** Where the server lives below its host, and the nonce of this page's answer: both told by index.html. */
export const SERVER_ROOT: string = document.querySelector<HTMLMetaElement>('meta[name=palaver-root]')?.content ?? '';

export const CSP_NONCE: string | undefined =
  document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce || undefined;

/** A path of the server as this page must ask for it. */
export const serverPath = (path: string): string => `${SERVER_ROOT}${path}`;
