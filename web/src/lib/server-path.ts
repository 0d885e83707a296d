/** Base path of the server and CSP nonce, both set by index.html. */
export const SERVER_ROOT: string = document.querySelector<HTMLMetaElement>('meta[name=palaver-root]')?.content ?? '';

export const CSP_NONCE: string | undefined =
  document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce || undefined;

/** Prefix a path with the base path of the server. */
export const serverPath = (path: string): string => `${SERVER_ROOT}${path}`;

/** The documentation site, which the server serves outside this page. */
export const DOCS_URL = `${SERVER_ROOT}/docs/`;
