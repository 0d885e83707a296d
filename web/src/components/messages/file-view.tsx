/**
 * Files of a message. Displays stored images and inline images; other files are shown by name, without loading them.
 */
import { Download, File as FileIcon, ImageIcon } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { Dialog } from '@/components/dialog';
import { ExternalLink } from '@/components/text';
import { formatSize } from '@/lib/format';
import { safeLink, safeExact, isInlineImage, isStoredFile } from '@/lib/safe-text';
import { serverPath } from '@/lib/server-path';

export interface DisplayFile {
  url: string;
  mediaType: string;
  filename?: string | undefined;
}

export function FilesView({ files }: { files: readonly DisplayFile[] }): ReactNode {
  return (
    <div className="flex flex-wrap items-start gap-2">
      {files.map((file, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same file may be there twice
        <FileView key={index} file={file} />
      ))}
    </div>
  );
}

const DISPLAYED_IMAGE_TYPES = /^image\/(?:png|jpeg|gif|webp|avif)$/;

function FileView({ file }: { file: DisplayFile }): ReactNode {
  const name = safeExact(file.filename ?? '').slice(0, 200);
  if (isStoredFile(file.url))
    return DISPLAYED_IMAGE_TYPES.test(file.mediaType) ? (
      <Thumbnail url={serverPath(file.url)} name={name} />
    ) : (
      <FileChip file={file} name={name} href={serverPath(file.url)} />
    );
  if (isInlineImage(file.url)) return <Thumbnail url={file.url} name={name} />;
  if (isInlineData(file.url)) return <FileChip file={file} name={name} href={file.url} />;
  const to = safeLink(file.url);
  const Icon = file.mediaType.startsWith('image/') ? ImageIcon : FileIcon;
  const label = (
    <>
      <Icon aria-hidden className="mr-1 inline size-4 align-text-bottom" />
      {name || safeExact(file.mediaType).slice(0, 80)}
    </>
  );
  return (
    <span className="max-w-full wrap-anywhere">
      {to ? (
        <ExternalLink to={to} linkText={name}>
          {label}
        </ExternalLink>
      ) : (
        label
      )}
    </span>
  );
}

const isInlineData = (url: string): boolean => /^data:[\w.+-]+\/[\w.+-]+;base64,[\w+/=]*$/.test(url);

function FileChip({ file, name, href }: { file: DisplayFile; name: string; href: string }): ReactNode {
  const isInline = href.startsWith('data:');
  const details = [
    safeExact(file.mediaType).slice(0, 60),
    isInline && formatSize(Math.floor(((href.length - href.indexOf(',') - 1) * 3) / 4)),
  ];
  const label = (
    <>
      <FileIcon aria-hidden className="size-4 shrink-0 text-muted" />
      <span dir="auto" className="min-w-0 truncate">
        {name || 'File'}
      </span>
      <span className="min-w-0 truncate text-xs text-faint">{details.filter(Boolean).join(' · ')}</span>
      <Download aria-label="Download" className="size-4 shrink-0 text-muted" />
    </>
  );
  const className =
    'inline-flex max-w-full items-center gap-2 rounded-lg border bg-surface px-3 py-1.5 hover:border-strong-line';
  if (isInline)
    return (
      <button type="button" className={className} onClick={() => downloadInlineFile(href, name || 'file')}>
        {label}
      </button>
    );
  return (
    <a href={href} download={name || 'file'} className={className}>
      {label}
    </a>
  );
}

/** Download inline bytes, as application/octet-stream, so that the browser does not open them as a page. */
function downloadInlineFile(url: string, name: string): void {
  const bytes = Uint8Array.from(atob(url.slice(url.indexOf(',') + 1)), (letter) => letter.charCodeAt(0));
  const objectUrl = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  const anchor = document.createElement('a');
  anchor.href = objectUrl;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(objectUrl), 10_000);
}

function Thumbnail({ url, name }: { url: string; name: string }): ReactNode {
  const [open, setOpen] = useState(false);
  const [isMissing, setMissing] = useState(false);
  if (isMissing)
    return (
      <span className="text-muted">
        <ImageIcon aria-hidden className="mr-1 inline size-4 align-text-bottom" />
        {name || 'Image'} cannot be displayed
      </span>
    );
  return (
    <>
      <button
        type="button"
        aria-label={`Open ${name || 'image'}`}
        onClick={() => setOpen(true)}
        className="overflow-hidden rounded-lg border bg-sunken hover:border-strong-line"
      >
        <img
          src={url}
          alt={name}
          loading="lazy"
          onError={() => setMissing(true)}
          className="max-h-48 max-w-full object-contain sm:max-w-72"
        />
      </button>
      <Dialog open={open} onClose={() => setOpen(false)} title={name || 'Image'} wide>
        <img src={url} alt={name} className="mx-auto max-h-[75dvh] max-w-full object-contain" />
        {!url.startsWith('data:') && (
          <a href={url} download={name || 'image'} className="mt-3 inline-flex items-center gap-1.5 text-accent">
            <Download aria-hidden className="size-4" />
            Download
          </a>
        )}
      </Dialog>
    </>
  );
}
