/** Files that go with a message: each is stored on the server first, and named by its id from then on. */
import { reached } from '@/api/client';
import type { StoredFile } from '@/api/types';
import { rooted } from '@/lib/server-path';
import type { ChatPart } from '@/components/messages/message';

export async function upload(file: File): Promise<StoredFile> {
  const answer = await reached('/api/files', {
    method: 'POST',
    headers: { 'content-type': file.type || 'application/octet-stream', 'x-palaver-filename': encodeURIComponent(file.name || 'file') },
    body: file,
  });
  return (await answer.json()) as StoredFile;
}

export const filePart = (file: StoredFile): ChatPart => ({
  type: 'file',
  mediaType: file.media_type,
  filename: file.filename,
  url: rooted(`/api/files/${file.id}`),
});
